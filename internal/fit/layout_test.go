package fit

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestObjectPart: where a linker runs in a folder of its own and takes the project's objects from archives, those of an
// operating system beside them are not taken for the project's, whatever their names are.
func TestObjectPart(t *testing.T) {
	of := Sources{
		Build: "build", Linked: "build/west", Areas: Areas{Own: []string{"build/west/modules/own/*.a"}},
		Names: []string{"own/src/fault.c", "crt/src/rpc/server.c", "model/codegen/host/src/lib1.c"},
	}
	l := &Layout{of: of, sources: of.parts()}
	plain := of
	plain.Linked, plain.Areas = "", Areas{}
	here := &Layout{of: plain, sources: plain.parts()}
	for _, c := range []struct {
		l              *Layout
		object, member string
		want           string
	}{
		{l, "modules/own/libfirmware.a", "fault.c.obj", partMain},
		{l, "modules/own/libfirmware.a", "fault.obj", partMain},
		{l, "modules/own/libruntime.a", "server.obj", partRPC},
		{l, "modules/own/libruntime.a", "unity_RPC_c.c.obj", partRPC},
		{l, "modules/own/libruntime.a", "unity_executor_c.c.obj", partExecutor},
		{l, "modules/own/libfirmware.a", "unity_firmware_c.c.obj", partMain},
		{l, "modules/own/libmodel.a", "lib1.c.o", partOperators},
		{l, "arch/libcore.a", "fault.c.obj", partSystem},
		{l, "kernel/libkernel.a", "lib1.o", partSystem},
		{l, "CMakeFiles/final.dir/isr_tables.c.obj", "", partSystem},
		{l, "/usr/lib/gcc/arm/libgcc.a", "lib1.o", partLibc},
		{l, "/opt/vendor/libx.a", "lib1.o", partOther},
		{l, "../../elsewhere/libx.a", "lib1.o", partOther},
		{l, "", "", partOther},
		{here, "build/runtime.a", "fault.o", partMain},
		{here, "build/model/lib1.o", "", partOperators},
		{here, "build/crt/unity_runtime_c.o", "", partRuntime},
		{here, "./build/src/fault.o", "", partMain},
		{here, "modules/own/libfirmware.a", "fault.c.obj", partOther},
	} {
		piece := &mapPiece{name: ".text", object: c.object, member: c.member}
		testkit.Equal(t, c.object+" "+c.member, c.l.objectPart(piece), c.want)
	}
}
