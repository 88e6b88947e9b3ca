package templates_test

import (
	"fmt"
	"io/fs"
	"log"

	"github.com/boardsmith/boardsmith/templates"
)

// Lists the templates: folders with a template.json.
func Example() {
	found, err := fs.Glob(templates.FS, "*/template.json")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found)
	// Output: [baremetal/template.json zephyr/template.json]
}
