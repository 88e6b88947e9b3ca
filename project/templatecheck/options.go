// This file checks that a template's options have an effect.

package templatecheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
)

func (c *checking) options(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	usual, err := c.compiledWith(ctx, c.Spec, nil)
	if err != nil {
		return "", err
	}

	var words []string
	for _, o := range c.p.Board().Options() {
		if !slices.Contains(c.found.Options, o.Name) {
			continue
		}
		if o.Name == stackOption && len(c.p.Board().Memory) == 0 {
			words = append(words, o.Name+" (not tried: the stack is the operating system's)")
			continue
		}

		word, err := c.option(ctx, o, usual)
		if err != nil {
			return "", err
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), nil
}

// option builds with other values of an option until what was compiled differs, and returns that value.
func (c *checking) option(ctx context.Context, o boards.Option, usual map[string][]string) (string, error) {
	var tried []string
	var refused error

	for _, value := range otherValues(o) {
		word := o.Name + "=" + value
		spec := c.Spec
		var err error
		if spec.Options, err = boards.ParseOptions([]string{word}); err != nil {
			continue // not between its limits
		}

		// Kept folders have objects of values that were tried before: only new ones count.
		before, err := c.objects()
		if err != nil {
			return "", err
		}

		c.trying = word
		rebuilt, err := c.compiledWith(ctx, spec, before)

		// Another option or the board's memory may exclude this value.
		if class := failure.Of(err); class == failure.Config || class == failure.DoesNotFit {
			refused = err
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", word, err)
		}

		for name, digests := range rebuilt {
			for _, digest := range digests {
				if !slices.Contains(usual[name], digest) {
					return word, nil
				}
			}
		}

		tried = append(tried, word)
	}

	if len(tried) == 0 {
		return o.Name + " (not tried)", refused
	}
	return "", fmt.Errorf("option %s is listed but has no effect: with %s, image and objects differ only by the build id",
		o.Name, strings.Join(tried, " or "))
}

// compiledWith builds a project of a specification, with optionProbe in the model. It returns digests of the loaded
// data of the image and of the objects except those before, by the files' names.
func (c *checking) compiledWith(ctx context.Context, s project.Spec, before map[string]objectState) (
	map[string][]string, error,
) {
	restore, err := c.generateWithProbe(ctx, s)
	if err != nil {
		return nil, err
	}

	i, err := c.p.Build(ctx)
	if err := errors.Join(err, restore()); err != nil {
		return nil, err
	}

	objects, err := c.objects()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(objects, func(at string, object objectState) bool { return object == before[at] })

	all := map[string][]string{}
	for _, at := range append(slices.Collect(maps.Keys(objects)), i.Path) {
		digest, err := loadedDigest(at)
		if err != nil {
			return nil, err
		}
		all[filepath.Base(at)] = append(all[filepath.Base(at)], digest)
	}
	return all, nil
}

// generateWithProbe generates the project of a specification, and appends optionProbe to a C file of the model. restore
// restores that file.
func (c *checking) generateWithProbe(ctx context.Context, s project.Spec) (restore func() error, err error) {
	if err := c.p.Generate(ctx, s); err != nil {
		return nil, err
	}
	if c.state, err = projectfile.Read(c.p.Dir()); err != nil {
		return nil, err
	}

	name, err := c.modelSource()
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(c.at(name)) // app=standalone has a file of the archive's name with other contents
	if err != nil {
		return nil, err
	}

	err = os.WriteFile(c.at(name), slices.Concat(source, []byte("\n"+optionProbe+"\n")), 0o644)
	return func() error { return os.WriteFile(c.at(name), source, 0o644) }, err
}

// otherValues returns values of an option to try in place of its default; some may be out of its limits.
func otherValues(o boards.Option) (values []string) {
	n, err := strconv.Atoi(o.Default)
	switch {
	case o.Choices != nil:
		values = slices.Clone(o.Choices)
	case o.Type == "string":
		values = []string{"-O0", "-O3"}
	case err == nil:
		for _, other := range []int{2 * n, n / 2, n + 4, 8, 64 << 10} {
			values = append(values, strconv.Itoa(other))
		}
	}

	return slices.DeleteFunc(values, func(value string) bool { return value == o.Default || value == "0" })
}
