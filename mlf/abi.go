package mlf

// An ABI is how an operator's function is entered. It is a property of the code in the archive, decided here and
// nowhere else: whoever calls operators asks the module.
type ABI string

// The ABIs.
const (
	ABIPacked   ABI = "packed"   // six arguments: values, type codes, count, result, its type code, resource (crt_abi.md §2)
	ABIUnpacked ABI = "unpacked" // one bare pointer per tensor and pool; entered through project's adapter
	ABITVMFFI   ABI = "tvm-ffi"  // four arguments, TVM from 0.21; no runtime here enters it yet
)

// decideABI looks at the code, once all of it is known.
func (m *Model) decideABI(scan *codeScan) ABI {
	switch {
	case scan.ffi:
		return ABITVMFFI
	case m.Interface == C:
		return ABIUnpacked
	}
	return ABIPacked
}
