package project_test

import (
	"context"
	"fmt"
	"log"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project"
)

// Builds a firmware and prints the memory that it uses.
func Example() {
	ctx := context.Background()
	var builder project.Builder
	p, err := builder.Generate(ctx, "kws", project.Spec{Board: "nucleo_f746zg", Model: "kws.tar"})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	i, err := p.Build(ctx)
	if err != nil {
		log.Fatal(err)
	}
	printUsage(p, i)
}

func printUsage(p *project.Project, i *image.Image) {
	usage, err := p.Usage(i)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range usage.Regions {
		fmt.Println(r.Name, r.Used, "of", r.Size, "bytes")
	}
}
