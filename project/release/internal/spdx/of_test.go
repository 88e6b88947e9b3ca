package spdx

import (
	"bufio"
	"strings"
	"testing"
)

// TestOf finds the expression in each kind of comment, also behind lines that a tool has put before.
func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"int x;\n":                            "",
		"// SPDX-License-Identifier: MIT\r\n": "MIT",
		"/* SPDX-License-Identifier: Apache-2.0 */\nint x;":                       "Apache-2.0",
		"/*\n * SPDX-License-Identifier: MIT OR Apache-2.0\n */":                  "MIT OR Apache-2.0",
		strings.Repeat("#pragma\n", 9) + "// SPDX-License-Identifier: 0BSD":       "0BSD",
		strings.Repeat("int x;\n", head) + "// SPDX-License-Identifier: MIT":      "",
		"// SPDX-License-Identifier: MIT\n// SPDX-License-Identifier: 0BSD\n":     "MIT AND 0BSD",
		"// SPDX-License-Identifier: MIT\n// SPDX-License-Identifier: mit\n":      "MIT",
		"# SPDX-License-Identifier: MIT OR ISC\n# SPDX-License-Identifier: 0BSD":  "(MIT OR ISC) AND 0BSD",
		"// Each file has an SPDX-License-Identifier: MIT or another.\n":          "",
		"const char* s = \"SPDX-License-Identifier: MIT\";\n":                     "",
		"\"SPDX-License-Identifier: MIT\"\n":                                      "",
		"int x; // SPDX-License-Identifier: MIT\n":                                "",
		"SPDX-License-Identifier: MIT\n":                                          "MIT",
		"/**\n ** \tSPDX-License-Identifier: MIT */\n":                            "MIT",
		"<!-- SPDX-License-Identifier: MIT -->\n":                                 "MIT",
		"\ufeff// SPDX-License-Identifier: MIT\n":                                 "MIT",
		"; SPDX-License-Identifier: MIT\n":                                        "MIT",
		strings.Repeat("x", bufio.MaxScanTokenSize+1) + "\n// SPDX-License-Ident": "",
	} {
		if got, err := Of(strings.NewReader(text)); got != want || err != nil {
			t.Errorf("%.60q: %q, %v, want %q", text, got, err, want)
		}
	}
}
