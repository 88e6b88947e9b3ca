package tune

// ReadCandidate gives tests access to what Reproduce measures again.
var ReadCandidate = readCandidate
