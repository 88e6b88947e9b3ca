// Package filelock locks open files: a lock belongs to the open file, and so to every process that has inherited it.
//
// The lock ends when the last of these processes has closed the file or ended. There is no earlier unlock.
package filelock
