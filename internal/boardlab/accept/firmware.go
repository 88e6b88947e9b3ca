// This file makes the archive of the firmware: a model whose operators are the functions of firmware/accept.c.

package accept

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

//go:embed firmware/accept.c
var functions string

// The unit tests' surroundings on a board.
var (
	//go:embed firmware/unit.c
	unitRunner []byte
	//go:embed firmware/cmocka.h
	cmocka []byte
)

var packed = regexp.MustCompile(`(?m)^PACKED\((accept_\w+)\)`)

// described is an operator that metadata describes, because an archive must. Calls of others may have any arguments.
const described = "accept_described"

const metadata = `{"version": 7, "model_name": "%[1]s", "export_datetime": "2020-01-01 00:00:00Z", ` +
	`"memory": {"%[1]s": [{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}, ` +
	`{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}]}, ` +
	`"target": ["c -keys=cpu"], "executors": [], "style": "operator"}`

// firmware returns the archive of accept.c. accept_variant returns the number.
func firmware(variant int) (*mlf.Archive, error) {
	var names []string
	for _, m := range packed.FindAllStringSubmatch(functions, -1) {
		names = append(names, m[1])
	}
	return archive(names, mlf.File{
		Name: "accept.c", Data: fmt.Appendf(nil, "#define ACCEPT_VARIANT %d\n%s", variant, functions),
	})
}

// archive returns a model whose operators are functions of C files.
func archive(names []string, files ...mlf.File) (*mlf.Archive, error) {
	var declared, table, list strings.Builder
	names = append([]string{described}, names...)
	for _, name := range names {
		fmt.Fprintf(&declared, "TVM_DLL int32_t %s(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, "+
			"int* out_type_code, void* resource_handle);\n", name)
		fmt.Fprintf(&table, "    (TVMBackendPackedCFunc)%s,\n", name)
		fmt.Fprintf(&list, `%s\000`, name)
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
int32_t `+described+`(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code,
                      void* resource_handle) {
    return 0;
}
`, declared.String(), table.String(), len(names), list.String())
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(data))})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	err := errors.Join(add("metadata.json", fmt.Appendf(nil, metadata, described)),
		add("codegen/host/src/lib0.c", []byte(registry)))
	for _, f := range files {
		folder := "codegen/host/src/"
		if strings.HasSuffix(f.Name, ".h") {
			folder = "codegen/host/include/"
		}
		err = errors.Join(err, add(folder+f.Name, f.Data))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	return mlf.Parse("accept.tar", b.Bytes())
}
