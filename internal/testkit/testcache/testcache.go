// Package testcache is the folder in which tests keep compiled runtimes. It is one folder for all packages in a run of
// all tests, which sets Variable; else each package has its own.
package testcache

import (
	"os"
	"sync"
)

// Variable is the environment variable that names a folder for the tests of all packages.
const Variable = "BOARDSMITH_TEST_CACHE"

var own string // the folder made here; "" if there is none

// Dir returns the folder. Call Clean after the tests.
var Dir = sync.OnceValue(func() string {
	if dir := os.Getenv(Variable); dir != "" {
		return dir
	}
	dir, err := os.MkdirTemp("", "boardsmith-test-cache-")
	if err != nil {
		panic(err)
	}
	own = dir
	return dir
})

// Clean removes the folder unless other packages use it.
func Clean() {
	if own != "" {
		_ = os.RemoveAll(own)
	}
}
