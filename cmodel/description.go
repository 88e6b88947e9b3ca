// This file makes tvm_<model>.json.

package cmodel

import (
	"fmt"
	"path"
)

// jsonVersion is the version of tvm_<model>.json; docs/embedded.md describes it.
const jsonVersion = 1

type description struct {
	Version    int             `json:"version"`
	Model      string          `json:"model"`
	CName      string          `json:"c_name"`
	ID         string          `json:"id"`
	Digest     string          `json:"archive_sha256"`
	Format     int             `json:"archive_version"`
	Entry      string          `json:"entry"`
	Inputs     []jsonTensor    `json:"inputs"`
	Outputs    []jsonTensor    `json:"outputs"`
	Workspaces []workspace     `json:"workspaces"`
	Bytes      int64           `json:"workspace_bytes"`
	Devices    []device        `json:"devices"`
	Parameters *jsonParameters `json:"parameters,omitempty"`
	Graph      *jsonGraph      `json:"graph,omitempty"`
	Sources    []string        `json:"sources"`
	Objects    []string        `json:"objects"`
	Renamed    []renamed       `json:"renamed"`
	Target     *target         `json:"target,omitempty"`
}

type jsonTensor struct {
	Name  string  `json:"name"`
	CName string  `json:"c_name,omitempty"`
	Macro string  `json:"macro,omitempty"`
	Index int     `json:"index"`
	DType string  `json:"dtype"`
	CType string  `json:"c_type,omitempty"`
	Shape []int64 `json:"shape"`
	Bytes int64   `json:"bytes"`
}

type jsonParameters struct {
	Place   string       `json:"place"` // "flash" or "ram"
	Bytes   int64        `json:"bytes"`
	Tensors []jsonTensor `json:"tensors"`
}

type jsonGraph struct {
	Calls  int   `json:"calls"`
	AtOnce int64 `json:"bytes_in_use_at_once"`
	TVM    int64 `json:"bytes_by_tvms_plan"`
}

func (g *model) description(code *Code) description {
	d := description{
		Version: jsonVersion, Model: g.M.Name, CName: g.C, ID: fmt.Sprintf("%#08x", g.ID()), Digest: g.Archive.Digest,
		Format: g.Archive.Version, Entry: g.Entry, Bytes: g.BufferBytes(),
		Inputs: jsonTensors(g.Inputs), Outputs: jsonTensors(g.Outputs), Sources: []string{}, Objects: []string{},
		Workspaces: append([]workspace{}, g.Workspaces...), Devices: append([]device{}, g.Devices...), // [], not null
		Renamed: append([]renamed{}, g.Renamed...), Target: g.Target,
	}

	for _, f := range code.Sources {
		d.Sources = append(d.Sources, path.Base(f.Name))
	}
	for _, f := range code.Objects {
		d.Objects = append(d.Objects, path.Base(f.Name))
	}

	if g.Graph != nil {
		d.Graph = &jsonGraph{len(g.Graph.Calls), g.Graph.AtOnce, g.Graph.TVM}
		if len(g.Graph.Params) > 0 {
			p := &jsonParameters{Place: "flash", Bytes: g.Graph.Data}
			if g.RAM {
				p.Place = "ram"
			}
			for i, a := range g.Graph.Params {
				p.Tensors = append(p.Tensors, jsonTensor{
					Name: a.Name, Index: i, DType: a.Array.DType.String(), Shape: a.Array.Shape, Bytes: int64(len(a.Array.Data)),
				})
			}
			d.Parameters = p
		}
	}
	return d
}

func jsonTensors(ts []tensor) []jsonTensor {
	out := []jsonTensor{}
	for _, t := range ts {
		out = append(out, jsonTensor{t.Name, t.C, t.Macro, t.Index, t.DType.String(), t.Type, t.Dims(), t.Bytes})
	}
	return out
}
