package device_test

// The steps in a second process need what this system has not: a kill without warning.
const childMode = "DEVICE_TEST_CHILD"

func child() int { return 3 }
