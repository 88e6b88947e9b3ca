package cachekey

import "testing"

// TestSentenceTellsApart: the step and each fact count, with the limits between words.
func TestSentenceTellsApart(t *testing.T) {
	seen := map[Key]string{}
	for name, k := range map[string]Key{
		"nothing":    New("s").Key(),
		"one word":   New("s").Add("f", "a b").Key(),
		"two words":  New("s").Add("f", "a", "b").Key(),
		"two lines":  New("s").Add("f", "a").Add("f", "b").Key(),
		"other step": New("s2").Add("f", "a b").Key(),
		"newline":    New("s").Add("f", "a\nf b").Key(),
	} {
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k] = name
	}
}
