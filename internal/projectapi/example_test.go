package projectapi_test

import (
	"context"
	"log"
	"os"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/projectapi"
	"github.com/boardsmith/boardsmith/project"
)

// Serves a template folder on the standard input and output.
func Example() {
	folder := projectapi.Folder{Dir: "/srv/templates/mine", Builder: &project.Builder{}, Desk: &device.Desk{}}
	if err := projectapi.Serve(context.Background(), os.Stdin, os.Stdout, folder); err != nil {
		log.Fatal(err)
	}
}
