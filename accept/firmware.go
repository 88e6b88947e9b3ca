// This file makes the archive of the firmware: a model whose operators are the functions of firmware/accept.c.

package accept

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

//go:embed firmware/accept.c
var functions string

var packed = regexp.MustCompile(`(?m)^PACKED\((accept_\w+)\)`)

// metadata describes one operator, because an archive must; nothing calls it as described.
const metadata = `{"version": 7, "model_name": "accept_twice", "export_datetime": "2020-01-01 00:00:00Z", ` +
	`"memory": {"accept_twice": [{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}, ` +
	`{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}]}, ` +
	`"target": ["c -keys=cpu"], "executors": [], "style": "operator"}`

// firmware returns the archive. accept_variant returns the number.
func firmware(variant int) (*mlf.Archive, error) {
	var declared, table, names strings.Builder
	all := packed.FindAllStringSubmatch(functions, -1)
	for _, m := range all {
		fmt.Fprintf(&declared, "TVM_DLL int32_t %s(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, "+
			"int* out_type_code, void* resource_handle);\n", m[1])
		fmt.Fprintf(&table, "    (TVMBackendPackedCFunc)%s,\n", m[1])
		fmt.Fprintf(&names, `%s\000`, m[1])
	}
	registry := fmt.Sprintf(`#include <tvm/runtime/crt/module.h>
%sstatic TVMBackendPackedCFunc _tvm_func_array[] = {
%s};
static const TVMFuncRegistry _tvm_func_registry = {
    "\%03o\000%s",    _tvm_func_array,
};
static const TVMModule _tvm_system_lib = {
    &_tvm_func_registry,
};
const TVMModule* TVMSystemLibEntryPoint(void) {
    return &_tvm_system_lib;
}
`, declared.String(), table.String(), len(all), names.String())
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []mlf.File{
		{Name: "metadata.json", Data: []byte(metadata)},
		{Name: "codegen/host/src/accept.c", Data: fmt.Appendf(nil, "#define ACCEPT_VARIANT %d\n%s", variant, functions)},
		{Name: "codegen/host/src/lib0.c", Data: []byte(registry)},
	} {
		if err := w.WriteHeader(&tar.Header{Name: "./" + f.Name, Mode: 0o644, Size: int64(len(f.Data))}); err != nil {
			return nil, fmt.Errorf("accept: %w", err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("accept: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return mlf.Parse("accept.tar", b.Bytes())
}
