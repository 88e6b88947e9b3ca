package fault_test

import (
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// call stands in for a call on a device whose operator faults.
func call() error {
	return fmt.Errorf("calling add: %w", &fault.Error{
		Record: &fault.Record{
			Reason: fault.ReasonHardware, Arch: fault.ArchCortexM, WordBytes: 4, Code: 3, PCValid: true, PC: 0x8001234,
			More: []uint64{0x8200, 0x40000000, 0, 0xe0000000},
		},
		Function: "add",
		Explanation: fault.Explanation{
			Operator: "add",
			Frames:   []fault.Frame{{PC: 0x8001234, Function: "add", File: "model/codegen/host/src/lib1.c", Line: 12}},
		},
	})
}

func ExampleError() {
	var faultErr *fault.Error
	if err := call(); errors.As(err, &faultErr) {
		fmt.Println(faultErr.Record.Reason, "in operator", faultErr.Operator)
		fmt.Println(faultErr.Record.Cause())
		for _, f := range faultErr.Frames {
			fmt.Println(f)
		}
	}
	// Output:
	// hardware fault in operator add
	// hard fault (CFSR 0x00008200, HFSR 0x40000000: precise data bus error at 0xe0000000)
	// add at model/codegen/host/src/lib1.c:12
}
