package mlf_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// wantStep reports an error without a next step, or not of class config with these texts.
func wantStep(t *testing.T, err error, texts ...string) {
	t.Helper()
	testkit.WantError(t, err, failure.Config, texts...)
	if failure.Next(err) == "" {
		t.Errorf("no next step: %v", err)
	}
}

// TestHostileMembers: each, after those of graphModel, is rejected with its name and the reason.
func TestHostileMembers(t *testing.T) {
	reg := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	for _, c := range []struct {
		h    tar.Header
		want string
	}{
		{reg("../evil"), "outside of the archive"},
		{reg("a/.."), "outside of the archive"},
		{reg("/etc/passwd"), "not relative"},
		{reg(`..\evil`), "backslash"},
		{reg("C:/evil"), "colon"},
		{reg("a\nb"), "not plain text"},
		{reg("a\xff"), "not plain text"},
		{reg(strings.Repeat("a/", 400) + "x"), "longer than"},
		{reg("src/" + strings.Repeat("a", 241) + ".txt"), "a part of its name is longer than"},
		{reg("codegen/host/src/$(shell touch x).c"), "generated code may contain"},
		{reg("codegen/host/src/net_lib9.S"), "codegen/host/src/net_lib9.S: unsupported file: C in"},
		{reg("codegen/host/src/.hidden.c"), "codegen/host/src/.hidden.c: a name that begins with a dot"},
		{reg("codegen/host/lib/.hidden.o"), "codegen/host/lib/.hidden.o: a name that begins with a dot"},
		{reg("codegen/host/src/tvm_net.c"), "codegen/host/src/tvm_net.c: boardsmith writes a file of this name"},
		{reg("codegen/host/include/tvm_net.h"), "codegen/host/include/tvm_net.h: boardsmith writes a file of this name"},
		{reg("codegen/host/src/boardsmith_adapter.c"), "boardsmith_adapter.c: boardsmith writes a file of this name"},
		{reg("./a/./../metadata.json"), "outside of the archive"},
		{reg("metadata.json/x"), "both a file and a folder"},
		{reg("src"), "twice"},
		{tar.Header{Name: "metadata.json", Typeflag: tar.TypeDir}, "both a file and a folder"},
		{tar.Header{Name: "l", Typeflag: tar.TypeChar}, "a device"},
		{tar.Header{Name: "l", Typeflag: tar.TypeBlock}, "a device"},
		{tar.Header{Name: "l", Typeflag: tar.TypeFifo}, "a pipe"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range graphModel() {
			must(t, plain(w, "./"+f.Name, f.Data))
		}
		must(t, add(w, c.h, nil))
		must(t, w.Close())
		_, err := mlf.Parse("x.tar", b.Bytes())
		wantStep(t, err, c.want, "x.tar")
	}
}

func TestHostileFiles(t *testing.T) {
	good := mlftest.Tar(t, graphModel()...)
	zip := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		must(t, w.Close())
		return out.Bytes()
	}
	zipped := zip(good)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "it is empty"},
		"text":        {[]byte("hello, world"), "not a tar"},
		"xz":          {[]byte("\xfd7zXZ\x00rest"), "unsupported compression"},
		"zip":         {[]byte("PK\x03\x04rest"), "a zip: only"},
		"cut tar":     {good[:len(good)/2], "truncated"},
		"no end":      {good[:len(good)-1024], "truncated"},
		"cut gzip":    {zipped[:len(zipped)-20], "truncated"},
		"damaged":     {append(append([]byte{}, zipped[:60]...), zip(good[:70])...), "damaged"},
		"not an MLF":  {mlftest.Tar(t, member("readme.txt", "hi")), "no metadata.json"},
		"no files":    {mlftest.Tar(t), "no files"},
		"gzipped gz":  {zip(zipped), "not a tar"},
		"only zeroes": {make([]byte, 10240), "no files"},
		"net.onnx":    {[]byte("\x08\x07"), "neither an archive nor the description"},
	} {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, string(c.data))
		_, err := mlf.Open(path)
		wantStep(t, err, c.want, path)
	}
	for _, path := range []string{filepath.Join(dir, "missing.tar"), dir, os.DevNull} {
		_, err := mlf.Open(path)
		testkit.WantError(t, err, failure.Config)
	}
}

// TestCutAnywhere truncates an archive after every byte: Parse returns an error and never panics.
func TestCutAnywhere(t *testing.T) {
	good := mlftest.Tar(t, graphModel()...)
	whole := len(good) - 1024 // the mark at the end: one block of it is enough
	for n := range whole + 512 {
		if _, err := mlf.Parse("x", good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(good))
		}
	}
}

func TestTooManyMembers(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range mlf.MaxFiles + 1 {
		must(t, plain(w, fmt.Sprint(i), nil))
	}
	must(t, w.Close())
	_, err := mlf.Parse("x", b.Bytes())
	testkit.WantError(t, err, "", "members")
}

// TestBadMetadata: each is rejected, and the error names the member.
func TestBadMetadata(t *testing.T) {
	in := func(file, text string) func(from, to string) map[string]string {
		return func(from, to string) map[string]string {
			if !strings.Contains(text, from) {
				t.Fatalf("%q is not in %s", from, file)
			}
			return map[string]string{file: strings.Replace(text, from, to, 1)}
		}
	}
	meta, graph := in("metadata.json", metadata7), in("executor-config/graph/net.graph", graphJSON)
	for _, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"missing":         {map[string]string{"metadata.json": ""}, "no metadata.json"},
		"not JSON":        {map[string]string{"metadata.json": "{"}, "metadata.json"},
		"version 8":       {meta(`"version": 7`, `"version": 8`), "version 8"},
		"no version":      {meta(`"version": 7, `, ``), "version"},
		"executor":        {meta(`["graph"]`, `["vm"]`), `"vm"`},
		"no executor":     {meta(`["graph"]`, `[]`), "executors"},
		"style":           {meta(`full-model`, `half-model`), "half-model"},
		"name":            {meta(`{"net": {`, `{"../net": {`), "../net"},
		"null module":     {map[string]string{"metadata.json": `{"version": 7, "modules": {"net": null}}`}, "net"},
		"negative memory": {meta(`"workspace_size_bytes": 5`, `"workspace_size_bytes": -5`), "negative"},
		"huge tensor":     {meta(`"size": 6`, `"size": 9999999999999`), "invalid size"},
		"type":            {meta(`"dtype": "int8"`, `"dtype": "string"`), "string"},
		"other shape":     {meta(`"size": 6`, `"shape": [2, 2], "size": 6`), "has 4 bytes, not 6"},
		"negative extent": {meta(`"size": 6`, `"shape": [-2, -3], "size": 6`), `tensor "x"`},
		"other size":      {meta(`"size": 6`, `"size": 7`), "by metadata.json"},
		"no graph":        {map[string]string{"executor-config/graph/net.graph": ""}, "graph is missing"},
		"bad params":      {map[string]string{"parameters/net.params": "short"}, "parameters/net.params"},
		"no code": {
			map[string]string{"codegen/host/src/net_lib0.c": "", "codegen/host/src/net_lib1.c": ""},
			"no code",
		},
		"no object": {
			map[string]string{"codegen/host/src/net_lib1.c": "-> codegen/host/lib/net_lib1.o"},
			"not an object",
		},
		"later node":       {graph(`[[0, 0, 0], [1, 0, 0]]}]`, `[[2, 0, 0], [1, 0, 0]]}]`), "node 2"},
		"no such output":   {graph(`[[0, 0, 0], [1, 0, 0]]}]`, `[[0, 1, 0], [1, 0, 0]]}]`), "output 1"},
		"rows":             {graph(`[0, 1, 2, 3]`, `[0, 1, 1, 3]`), "node_row_ptr"},
		"short attrs":      {graph(`["int8", "int8", "int8"]`, `["int8"]`), "dltype"},
		"attrs kind":       {graph(`list_int`, `list_str`), "storage_id"},
		"negative storage": {graph(`[0, 1, 2]]`, `[0, -1, 2]]`), "storage id"},
		"overflow":         {graph(`[[2, 3], [3]`, `[[4611686018427387904, 4], [3]`), "invalid tensor"},
		"arg nodes":        {graph(`"arg_nodes": [0, 1]`, `"arg_nodes": [0, 2]`), "arg_nodes"},
		"an arg left out":  {graph(`"arg_nodes": [0, 1]`, `"arg_nodes": [0]`), "not in arg_nodes"},
		"no heads":         {graph(`"heads": [[2, 0, 0]]`, `"heads": []`), "no outputs"},
		"counts":           {graph(`"num_inputs": "2"`, `"num_inputs": "3"`), "num_inputs"},
		"control":          {graph(`"name": "n",`, `"name": "n", "control_deps": [0],`), "control_deps"},
		"copy":             {graph(`tvmgen_net_add`, `__copy`), "__copy"},
		"storage scope": {
			graph(`"attrs": {"dltype"`, `"attrs": {"storage_scope": ["list_str", []], "dltype"`),
			"storage_scope",
		},
	} {
		_, err := mlf.Parse("x.tar", mlftest.Tar(t, change(graphModel(), c.change)...))
		testkit.WantError(t, err, failure.Config, c.want, "x.tar")
	}
}
