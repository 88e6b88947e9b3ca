package project

// The steps in a second process need what this system has not: a limit on the size of files, a kill without warning.
const childMode = "PROJECT_TEST_CHILD"

func child() int { return 3 }
