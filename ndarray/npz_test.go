package ndarray

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// archives is the folder of arrays that TVM and NumPy wrote.
const archives = "../internal/testdata/archives"

// npyFile returns a .npy file with the given header.
func npyFile(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(b, header...), data...)
}

// zipOf returns an archive with one content under some names.
func zipOf(t *testing.T, data []byte, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.Create(name)
		must(t, err)
		_, err = w.Write(data)
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func TestFilesSurviveARoundTrip(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(archives, "*.npz"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d .npz files in %s, %v", len(files), archives, err)
	}
	more, _ := filepath.Glob(filepath.Join(archives, "*", "*.npz"))
	for _, path := range append(files, more...) {
		arrays, err := ReadNPZ(path)
		must(t, err)
		out := filepath.Join(t.TempDir(), "out.npz")
		must(t, WriteNPZ(out, arrays))
		again, err := ReadNPZ(out)
		if err != nil || !slices.EqualFunc(arrays, again,
			func(a, b Named) bool { return a.Name == b.Name && a.Equal(b.Array) }) {
			t.Errorf("%s changed: %v", path, err)
		}
		if python, err := exec.LookPath("python3"); err != nil { // a second reader, with the standard library alone
			t.Log(err)
		} else {
			testkit.Output(t, exec.Command(python, "testdata/compare.py", out, path))
		}
	}
}

func TestEveryTypeAndShape(t *testing.T) {
	var arrays []Named
	for _, ty := range npyTypes {
		for _, shape := range [][]int64{{}, {1}, {3}, {2, 3, 4}, {0}, {2, 0, 3}} {
			a, err := New(ty.dtype, shape...)
			must(t, err)
			for i := range a.Data {
				a.Data[i] = byte(i*7 + 1)
			}
			arrays = append(arrays, Named{fmt.Sprintf("%v %v:0/ü", ty.dtype, shape), a})
		}
	}
	slices.Reverse(arrays) // not sorted
	path := filepath.Join(t.TempDir(), "a.npz")
	must(t, WriteNPZ(path, arrays))
	got, err := ReadNPZ(path)
	must(t, err)
	for i, a := range arrays {
		if got[i].Name != a.Name || !got[i].Equal(a.Array) {
			t.Errorf("%q came back as %q %v %v", a.Name, got[i].Name, got[i].DType, got[i].Shape)
		}
	}
	first, _ := os.ReadFile(path)
	must(t, WriteNPZ(path, arrays))
	if second, _ := os.ReadFile(path); !bytes.Equal(first, second) {
		t.Error("writing the same arrays twice gave different bytes")
	}
}

// TestWritesAsNumPyDoes compares the header with one that NumPy wrote.
func TestWritesAsNumPyDoes(t *testing.T) {
	path := filepath.Join(archives, "conv_f32.inputs.npz")
	z, err := zip.OpenReader(path)
	must(t, err)
	defer z.Close()
	m, err := z.File[0].Open()
	must(t, err)
	var want bytes.Buffer
	if _, err := want.ReadFrom(m); err != nil {
		t.Fatal(err)
	}
	a, err := readNPY(bytes.NewReader(want.Bytes()))
	must(t, err)
	var got bytes.Buffer
	if err := writeNPY(&got, a); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, got header %q, want %q", err, got.Bytes()[:128], want.Bytes()[:128])
	}
}

func TestOtherOrders(t *testing.T) {
	head := "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n"
	for _, c := range []struct {
		file []byte
		want Array
	}{
		{
			npyFile(fmt.Sprintf(head, ">i2", "False", "(2,)"), 1, 2, 3, 4),
			Array{DType{Int, 16, 1}, []int64{2}, []byte{2, 1, 4, 3}},
		},
		{
			npyFile(fmt.Sprintf(head, ">c8", "False", "()"), 1, 2, 3, 4, 5, 6, 7, 8),
			Array{DType{complexCode, 64, 1}, []int64{}, []byte{4, 3, 2, 1, 8, 7, 6, 5}},
		},
		{
			npyFile(fmt.Sprintf(head, "|i1", "True", "(2, 3)"), 1, 4, 2, 5, 3, 6),
			Array{DType{Int, 8, 1}, []int64{2, 3}, []byte{1, 2, 3, 4, 5, 6}},
		},
		{
			npyFile(fmt.Sprintf(head, "|u1", "True", "(2, 1, 2)"), 1, 3, 2, 4),
			Array{DType{UInt, 8, 1}, []int64{2, 1, 2}, []byte{1, 2, 3, 4}},
		},
		{npyFile(fmt.Sprintf(head, "|b1", "True", "(2,)"), 1, 0), Array{DType{UInt, 1, 1}, []int64{2}, []byte{1, 0}}},
	} {
		got, err := readNPY(bytes.NewReader(c.file))
		if err != nil || !got.Equal(&c.want) {
			t.Errorf("%q reads as %+v, %v, want %+v", c.file, got, err, c.want)
		}
	}
}

func TestHostileArrays(t *testing.T) {
	good := "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n"
	long := npyFile(good, 1, 2)
	long[6], long[8] = 2, 0xff
	for name, file := range map[string][]byte{
		"empty":          {},
		"not npy":        []byte("PK\x03\x04 hello, world"),
		"version 9":      append([]byte("\x93NUMPY\x09\x00"), make([]byte, 20)...),
		"long header":    append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), make([]byte, 20)...),
		"cut header":     npyFile(good)[:30],
		"no newline":     npyFile("{'descr': '|i1'"),
		"no keys":        npyFile("{}\n"),
		"odd order":      npyFile("'shape': 'fortran_order': 'descr': }\n"),
		"closed early":   npyFile("}{'descr': '|i1', 'fortran_order': False, 'shape': (2,), \n"),
		"text":           npyFile("{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }\n", make([]byte, 20)...),
		"object":         npyFile("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", make([]byte, 20)...),
		"negative":       npyFile("{'descr': '|i1', 'fortran_order': False, 'shape': (-2,), }\n", 1, 2),
		"overflow":       npyFile("{'descr': '|i1', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"),
		"huge dimension": npyFile("{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999999999,), }\n"),
		"short data":     npyFile(good, 1),
		"lying length":   npyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (50000000,), }\n", 1),
	} {
		if a, err := readNPY(bytes.NewReader(file)); err == nil {
			t.Errorf("%s: read as %v %v", name, a.DType, a.Shape)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	pair := npyFile("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n", 1, 2)
	zipped := func(names ...string) []byte { return zipOf(t, pair, names...) }
	damaged := zipped("a.npy")
	damaged[bytes.Index(damaged, []byte("a.npy"))+9] ^= 1 // in the packed data
	for name, file := range map[string][]byte{
		"twice":      zipped("a.npy", "b.npy", "a.npy"),
		"not arrays": zipped("a.npy", "readme.txt"),
		"longer":     zipOf(t, append(pair, "more"...), "long.npy"),
		"cut":        zipped("a.npy")[:40],
		"damaged":    damaged,
		"nothing":    {},
	} {
		path := filepath.Join(t.TempDir(), "x.npz")
		testkit.WriteFile(t, path, string(file))
		_, err := ReadNPZ(path)
		testkit.WantError(t, err, failure.Config, path)
		if failure.Next(err) == "" {
			t.Errorf("%s: %v has no next step", name, err)
		}
	}
}

// TestBomb packs more zeroes than the limit into a small archive: the limit holds for the sum of all arrays.
func TestBomb(t *testing.T) {
	const limit = 1 << 20
	const n = limit/2 + 1
	header := fmt.Sprintf("{'descr': '|i1', 'fortran_order': False, 'shape': (%d,), }\n", n)
	r := bytes.NewReader(zipOf(t, npyFile(header, make([]byte, n)...), "a.npy", "b.npy"))
	if _, err := readArchive(r, r.Size(), limits{limit, 1 << 10}); err == nil {
		t.Error("an archive beyond the limit was read")
	}
	if _, err := readArchive(r, r.Size(), limits{limit + 2, 1 << 10}); err != nil {
		t.Error(err)
	}
}

// TestManyArrays reads as many arrays as NumPy writes for a set of single samples, and refuses long headers,
// which would take minutes.
func TestManyArrays(t *testing.T) {
	archive := func(members, header int) *bytes.Reader {
		text := "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }"
		data := npyFile(text+strings.Repeat(" ", header-len(text)-1)+"\n", 1)
		var names []string
		for i := range members {
			names = append(names, fmt.Sprintf("image_%d.npy", i))
		}
		return bytes.NewReader(zipOf(t, data, names...))
	}
	r := archive(4200, 118)
	arrays, err := readArchive(r, r.Size(), usual)
	must(t, err)
	testkit.Equal(t, "arrays", len(arrays), 4200)
	r = archive(20, 1<<10)
	_, err = readArchive(r, r.Size(), limits{1 << 10, 20 << 10})
	testkit.WantError(t, err, "", "all headers together")
}

func TestWriteErrors(t *testing.T) {
	one := &Array{DType{Int, 8, 1}, []int64{1}, []byte{1}}
	path := filepath.Join(t.TempDir(), "x.npz")
	for name, arrays := range map[string][]Named{
		"twice":     {{"a", one}, {"a", one}},
		"nameless":  {{"", one}},
		"handle":    {{"a", &Array{DType{Handle, 64, 1}, []int64{1}, make([]byte, 8)}}},
		"bfloat":    {{"a", &Array{DType{BFloat, 16, 1}, []int64{1}, make([]byte, 2)}}},
		"too short": {{"a", &Array{DType{Int, 8, 1}, []int64{2}, []byte{1}}}},
	} {
		if err := WriteNPZ(path, arrays); err == nil {
			t.Errorf("%s was written", name)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s left a file behind", name)
		}
	}
	err := WriteNPZ(filepath.Join(t.TempDir(), "no", "x.npz"), []Named{{"a", one}})
	testkit.WantError(t, err, failure.Config)
}
