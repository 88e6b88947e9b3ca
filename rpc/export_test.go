package rpc

// ParsePlatform gives the tests outside of the package access to the parser.
var ParsePlatform = parsePlatform

// LimitError gives the tests outside of the package access to the error's fields.
type LimitError = limitError
