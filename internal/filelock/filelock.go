// Package filelock locks open files: a lock belongs to the open file, and so to every process that has inherited it.
//
// It ends when the last of them has closed the file or has died; nothing unlocks it sooner. It knows neither what is
// locked nor why.
package filelock
