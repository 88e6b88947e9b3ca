// Command pack adds inputs of a fuzz target to its archive, and creates the archive if there is none:
//
//	go run ./internal/testkit/corpus/pack mlf/testdata/corpus/FuzzGraph.tar.gz mlf/testdata/fuzz/FuzzGraph/*
package main

import (
	"log"
	"os"

	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: go run ./internal/testkit/corpus/pack ARCHIVE FILE...")
	}
	if err := corpus.Pack(os.Args[1], os.Args[2:]...); err != nil {
		log.Fatal(err)
	}
}
