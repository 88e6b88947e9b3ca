// This file determines the calling convention of an archive's operators.

package mlf

// An ABI is the calling convention of an operator's function. It is a property of the archive's code; callers of
// operators read it from the Model.
type ABI string

// The ABIs.
const (
	// six arguments: values, type codes, count, result, its type code, resource (crt_abi.md §2)
	ABIPacked   ABI = "packed"
	ABIUnpacked ABI = "unpacked" // one bare pointer per tensor and pool; entered through project's adapter
	ABITVMFFI   ABI = "tvm-ffi"  // four arguments, TVM from 0.21; entered through ramlink's adapter
)

// decideABI derives the ABI from the code scan.
func (m *Model) decideABI(scan *codeScan) ABI {
	switch {
	case scan.ffi:
		return ABITVMFFI
	case m.Interface == cInterface:
		return ABIUnpacked
	}
	return ABIPacked
}
