// Package stage runs the parts of a program as processes that can be killed, and prints their reports on a
// timeline. It also plays faults of the network before a part that serves HTTP. Programs in examples and verify
// use it.
//
// A part is another copy of the program. The parent starts it with Start, which sends the part's role as a line of JSON
// to its standard input. The program's main function calls Play if IsPart returns true:
//
//	if stage.IsPart() {
//		return stage.Play(play)
//	}
//
// A part ends when its standard input does, so that none survives the parent.
package stage
