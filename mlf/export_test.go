package mlf

// What tests outside of the package look at.
const MaxFiles = maxFiles

type Relay = relayText

var (
	ParseHeader = parseHeader
	ParseRelay  = parseRelay
)
