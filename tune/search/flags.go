// This file lists and combines the compiler flags that a search tries.

package search

import (
	"slices"
	"strings"
)

// choices are flags of GCC that changed the time of a network in measurements, the most effective first.
var choices = strings.Fields(`
	-funroll-loops -O3 -fno-tree-vrp -fira-region=one -fno-tree-ter -fno-tree-ch
	--param=max-unroll-times=16 --param=max-average-unrolled-insns=200 --param=max-completely-peeled-insns=400
	--param=max-completely-peel-times=32 --param=max-unrolled-insns=400 --param=max-unroll-times=4
	-fno-gcse -fno-tree-pre -fno-schedule-insns -fno-schedule-insns2 -fno-tree-loop-im -fno-move-loop-invariants
	-fno-expensive-optimizations -fno-code-hoisting -fno-split-wide-types -fno-rerun-cse-after-loop
	-fno-tree-dominator-opts -fno-tree-forwprop -fno-forward-propagate -fno-tree-slsr -fno-tree-reassoc -fno-ivopts
	-fno-if-conversion -fno-tree-sink -fno-tree-sra -fno-thread-jumps -fno-caller-saves -fno-section-anchors
	-fira-region=all -fira-hoist-pressure -fno-sched-pressure -fselective-scheduling -fno-auto-inc-dec
	-fgcse-las -fgcse-sm -fweb -frename-registers -fmodulo-sched
	-fno-tree-vectorize -ftree-loop-distribution -fsplit-loops -fpeel-loops -funswitch-loops -fpredictive-commoning
	-floop-interchange -floop-unroll-and-jam -fno-inline -fno-ipa-cp -fno-ipa-ra -O1 -Os
`)

// A flagList is a value of the option operator_flags.
type flagList []string

// listOf returns the flags in sorted order, so that equal choices are equal texts.
func listOf(option string) flagList {
	return slices.Sorted(func(yield func(string) bool) {
		for w := range strings.SplitSeq(option, ",") {
			if w != "" && !yield(w) {
				return
			}
		}
	})
}

func (l flagList) String() string { return strings.Join(l, ",") }

// with returns the list with a flag in place of those with the same subject, or without the flag if the list has it.
func (l flagList) with(flag string) flagList {
	kept := slices.DeleteFunc(slices.Clone(l), func(w string) bool { return subject(w) == subject(flag) })
	if slices.Contains(l, flag) {
		return kept
	}
	return listOf(append(kept, flag).String())
}

// subject returns the setting that a flag changes, with its file: "-fno-gcse" and "-fgcse" have the same one, as have
// -O3 and -Os.
func subject(word string) string {
	file, flag, hasFile := strings.Cut(word, ":")
	if !hasFile {
		file, flag = "", word
	}

	name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--param="), "=")
	if strings.HasPrefix(flag, "-O") {
		name = "-O"
	}
	return file + ":" + strings.Replace(name, "-fno-", "-f", 1)
}
