//go:build linux

package tune_test

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
)

func TestMain(m *testing.M) { keepertest.Main(m) }
