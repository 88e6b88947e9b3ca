package targets

import (
	"encoding/json"
	"fmt"

	"github.com/boardsmith/boardsmith/boards"
)

// fieldTexts is the merged board as its files write it: each field that holds a plain value or a list, by its path.
func fieldTexts(b *boards.Board) (map[string]string, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	texts := map[string]string{}
	flatten("", tree, texts)
	return texts, nil
}

func flatten(at string, tree map[string]json.RawMessage, texts map[string]string) {
	for name, raw := range tree {
		var below map[string]json.RawMessage
		if json.Unmarshal(raw, &below) == nil && below != nil {
			flatten(at+name+".", below, texts)
			continue
		}
		texts[at+name] = string(raw)
	}
}
