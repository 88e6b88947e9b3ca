package tune

import (
	"archive/tar"
	"bytes"
	"sync"

	"github.com/boardsmith/boardsmith/mlf"
)

const blankSource = `#include <tvm/runtime/crt/module.h>
TVM_DLL int32_t nothing(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle) {
  return 0;
}
static const TVMBackendPackedCFunc functions[] = {nothing};
static const TVMFuncRegistry registry = {"\001\000nothing\000", functions};
static const TVMModule library = {&registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &library; }
`

// blank is an archive with one operator, which does nothing, for the firmware that stays while candidates come and go.
var blank = sync.OnceValue(func() *mlf.Archive {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []mlf.File{
		{Name: "metadata.json", Data: []byte(`{"version": 7, "model_name": "nothing", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"nothing": [` +
			`{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}]}, "target": ["c -keys=cpu"], "executors": [], "style": "operator"}`)},
		{Name: "codegen/host/src/lib0.c", Data: []byte(blankSource)},
	} {
		// into memory
		_ = w.WriteHeader(&tar.Header{Name: "./" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), Typeflag: tar.TypeReg})
		_, _ = w.Write(f.Data)
	}
	_ = w.Close()
	a, err := mlf.Parse("resident.tar", b.Bytes())
	if err != nil {
		panic(err) // the archive is above
	}
	return a
})
