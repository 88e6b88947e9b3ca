package transport

// The errors of TCP, for the tests outside of the package.
var (
	Unreachable  = unreachable
	Disconnected = disconnected
)
