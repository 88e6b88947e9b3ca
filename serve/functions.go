// This file has the functions of TVM's RPC server that boards do not have (rpc_tcp.md §3).

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// An ownFunction is a function of the server.
type ownFunction func(ctx context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error)

const (
	evaluatorName  = "runtime.RPCTimeEvaluator"
	systemLibName  = "runtime.SystemLib"
	packetSizeName = "tvm.rpc.server.GetCRTMaxPacketSize"
)

var ownFunctions = map[string]ownFunction{
	"tvm.rpc.server.upload":                 upload,
	"tvm.rpc.server.download":               download,
	"tvm.rpc.server.download_linked_module": download,
	"tvm.rpc.server.remove":                 remove,
	"tvm.rpc.server.load_module":            loadModule,
	packetSizeName:                          packetSize,
	evaluatorName:                           timeEvaluator,
	systemLibName:                           systemLib,
	"ffi.SystemLib":                         systemLib,

	boardclient.DescribeName: ofPlace(describe),
	boardclient.PrepareName:  ofPlace(prepare, tvmrpc.TypeStr, tvmrpc.TypeBytes),
	boardclient.ResetName:    ofPlace(reset, tvmrpc.TypeInt),
	boardclient.LinkName:     ofPlace(openLink),
}

// boardNames maps functions to those of boards that do the same.
var boardNames = map[string]string{
	"tvm.contrib.random.random_fill_for_measure": "tvm.contrib.random.random_fill",
}

// checkTypes returns an error unless the first arguments have the types.
func checkTypes(args []tvmrpc.Value, types ...tvmrpc.TypeCode) error {
	if len(args) < len(types) {
		return failure.Errorf(failure.Config, "%d arguments instead of %d", len(args), len(types))
	}
	for i, t := range types {
		if args[i].Type != t {
			return failure.Errorf(failure.Config, "argument %d has type %d instead of %d", i, args[i].Type, t)
		}
	}
	return nil
}

func upload(_ context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	if err := checkTypes(args, tvmrpc.TypeStr, tvmrpc.TypeBytes); err != nil {
		return nil, err
	}
	return none, q.uploads.write(string(args[0].Data), args[1].Data)
}

func download(_ context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	if err := checkTypes(args, tvmrpc.TypeStr); err != nil {
		return nil, err
	}
	data, err := q.uploads.read(string(args[0].Data))
	return resultReply(tvmrpc.TypeBytes, tvmrpc.Raw(data)), err
}

// remove never fails: clients remove files that are missing, and a failure would hide their error.
func remove(_ context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	if checkTypes(args, tvmrpc.TypeStr) == nil {
		q.uploads.delete(string(args[0].Data))
	}
	return none, nil
}

func loadModule(ctx context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	if err := checkTypes(args, tvmrpc.TypeStr); err != nil {
		return nil, err
	}
	if q.lost != nil {
		return nil, q.lost
	}

	data, err := q.uploads.read(string(args[0].Data))
	if err != nil {
		return nil, err
	}

	h, err := q.load(ctx, func(ctx context.Context) (rpc.Module, error) { return q.server.board.Load(ctx, data) })
	return resultReply(tvmrpc.TypeModule, tvmrpc.Opaque(h)), err
}

func packetSize(context.Context, *session, []tvmrpc.Value) (*tvmrpc.Packet, error) {
	return resultReply(tvmrpc.TypeInt, tvmrpc.Int(maxCopy)), nil
}

// systemLib returns the module with which the session began, else that of the firmware.
func systemLib(ctx context.Context, q *session, _ []tvmrpc.Value) (*tvmrpc.Packet, error) {
	if q.model != nil {
		model := *q.model // each is freed alone
		h, err := q.add(&model)
		return resultReply(tvmrpc.TypeModule, tvmrpc.Opaque(h)), err
	}

	h, err := q.lookup(ctx, systemLibName)
	if err != nil {
		return nil, err
	}
	return q.callBoard(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: h}, nil)
}

// An evaluator times a function of a module.
type evaluator struct {
	of     *object        // the module
	args   []tvmrpc.Value // of the board's function
	handle uint64         // of the board's evaluator
}

// evaluatorArgs lists the types of the board's arguments (rpc.md §6).
var evaluatorArgs = []tvmrpc.TypeCode{
	tvmrpc.TypeModule, tvmrpc.TypeStr, tvmrpc.TypeInt, tvmrpc.TypeInt, tvmrpc.TypeInt, tvmrpc.TypeInt,
	tvmrpc.TypeInt, tvmrpc.TypeInt,
	tvmrpc.TypeInt, tvmrpc.TypeInt, tvmrpc.TypeInt, tvmrpc.TypeStr,
}

func timeEvaluator(ctx context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	args = slices.Clone(args)

	const zeroTimes, flushBytes = 7, 10
	if len(args) == 10 { // TVM 0.9
		args = slices.Insert(args, zeroTimes, tvmrpc.Int(100))
	}
	if len(args) == 11 { // TVM 0.10 to 0.13
		args = slices.Insert(args, flushBytes, tvmrpc.Int(0))
	}

	if len(args) != len(evaluatorArgs) {
		return nil, failure.Errorf(failure.Config, "%d arguments instead of 10, 11 or 12", len(args))
	}
	if args[0].Type == tvmrpc.TypeNull {
		return nil, failure.Errorf(failure.Config, "a board times functions of modules only")
	}
	if err := checkTypes(args, evaluatorArgs...); err != nil {
		return nil, err
	}
	args[11] = tvmrpc.Text("") // a function of the client's computer that flushes its caches

	of, ok := q.own[args[0].Word].(*object)
	if !ok {
		return nil, failure.Errorf(failure.Config, "the module was freed, or is none")
	}

	// The client's handle is the server's; the board has one of its own.
	args[0].Word = of.handle

	e := &evaluator{of: of, args: args}
	if err := q.createEvaluator(ctx, e); err != nil {
		return nil, err
	}

	h, err := q.add(e)
	return resultReply(tvmrpc.TypeFunction, tvmrpc.Opaque(h)), err
}

// createEvaluator creates the board's evaluator: the latest one is valid only.
func (q *session) createEvaluator(ctx context.Context, e *evaluator) error {
	if err := q.check(ctx, e.of); err != nil {
		return err
	}

	h, err := q.lookup(ctx, evaluatorName)
	if err != nil {
		return err
	}

	reply, err := q.do(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: h, Args: e.args})
	if err != nil {
		return fmt.Errorf("function %.100q: %w", e.args[1].Data, err)
	}
	if len(reply.Args) != 2 || tvmrpc.TypeCode(reply.Args[0].Word) != tvmrpc.TypeFunction {
		return failure.Errorf(failure.Transport, "the board returned no evaluator of function %.100q", e.args[1].Data)
	}

	e.handle, q.latest = reply.Args[1].Word, e
	return nil
}

// evaluate times a function.
func (q *session) evaluate(ctx context.Context, e *evaluator, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
	q.server.o.emit(Event{Client: q.client, Text: "measuring"})

	err := q.check(ctx, e.of)
	// The board keeps its latest evaluator only.
	if err == nil && q.latest != e {
		err = q.createEvaluator(ctx, e)
	}
	if err != nil {
		return nil, err
	}

	return q.callBoard(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: e.handle, Args: args}, e.of.module)
}

// uploads are the files of one session, in a folder that is created with the first one. Paths do not leave it.
type uploads struct {
	parent string
	limit  int64 // bytes of all files together
	used   int64
	folder *scratch.Folder
	root   *os.Root // nil: no file
}

const (
	fileCost = 4 << 10 // bytes that a file counts beside its content
	longest  = 255     // bytes of a file's name, with its folders: deep ones would take long to remove
)

func (u *uploads) open() (err error) {
	if u.root != nil {
		return nil
	}
	if u.folder, err = scratch.MakeIn(cmp.Or(u.parent, os.TempDir()), "boardsmith-session-"); err != nil {
		return err
	}

	files := filepath.Join(u.folder.Dir, "files")
	if err = os.Mkdir(files, 0o700); err == nil {
		u.root, err = os.OpenRoot(files)
	}
	if err != nil {
		return errors.Join(err, u.folder.Remove())
	}
	return nil
}

// write stores a file. What was written counts until the session ends, also if it is replaced or removed.
func (u *uploads) write(name string, data []byte) error {
	if len(name) > longest {
		return failure.Errorf(failure.Config, "file %.50q…: names have at most %d bytes, not %d", name, longest, len(name))
	}

	used := u.used + int64(len(data)) + fileCost
	if used > u.limit {
		return failure.New(failure.Config, "begin another session",
			"file %.200q: the session's uploads would have more than %d bytes", name, u.limit)
	}
	if err := u.open(); err != nil {
		return err
	}

	// Counted before the write, which may leave a part when it fails.
	u.used = used
	if err := u.root.MkdirAll(path.Dir(path.Clean(name)), 0o700); err != nil {
		return failure.Errorf(failure.Config, "file %.200q: %w", name, err)
	}
	if err := u.root.WriteFile(name, data, 0o600); err != nil {
		return failure.Errorf(failure.Config, "file %.200q: %w", name, err)
	}
	return nil
}

func (u *uploads) read(name string) ([]byte, error) {
	if u.root == nil {
		return nil, failure.Errorf(failure.Config, "file %.200q: %w", name, fs.ErrNotExist)
	}

	f, err := u.root.Open(name)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "file %.200q: %w", name, err)
	}

	defer f.Close()
	return io.ReadAll(f)
}

func (u *uploads) delete(name string) {
	if u.root != nil {
		_ = u.root.Remove(name)
	}
}

// remove removes all files.
func (u *uploads) remove() error {
	if u.root == nil {
		return nil
	}
	_ = u.root.Close()
	return u.folder.Remove()
}
