// Go programs that a panic ends by a signal, one per function, for Tests/Detection/panics.py. The lines before the
// functions have the format of ways.c.
package main

// #include <stdio.h>
// static int of_libc(void) { return getchar_unlocked() == EOF; }
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

type colour int

func (c colour) String() string { return fmt.Sprintf("colour %d", int(c)) }

// dies: SIGABRT, crash, message=^panic: out of cheese$, threads=any, top=main.text
func text() { panic("out of cheese") }

// dies: SIGABRT, crash, message=^panic: no cheese: out of stock$, threads=any, top=main.wrapped
func wrapped() { panic(fmt.Errorf("no cheese: %w", errors.New("out of stock"))) }

// dies: SIGABRT, crash, message=^panic: colour 3$, threads=any, top=main.stringer
func stringer() { panic(colour(3)) }

// dies: SIGABRT, crash, message=^panic: -17$, threads=any, top=main.number
func number() { panic(-17) }

// dies: SIGABRT, crash, message=^panic: runtime error: index out of range \[5\] with length 3$, threads=any, top=main.index
func index() {
	list := make([]int, 3)
	fmt.Println(list[len(os.Args)+3])
}

// dies: SIGABRT, crash, message=^panic: runtime error: invalid memory address or nil pointer dereference$, threads=any, top=main.null
func null() {
	var place *int
	*place = 1
}

// dies: SIGABRT, crash, message=^panic: in a goroutine$, threads=any, top=main.goroutine.func1
func goroutine() {
	go func() { panic("in a goroutine") }()
	select {}
}

// dies: SIGABRT, crash, message=^panic: the second$, threads=any, top=main.deferred.func1
func deferred() {
	defer func() { panic("the second") }()
	panic("the first")
}

// For a struct Go prints only its address, so that no message is expected.
// dies: SIGABRT, crash, threads=any, top=main.structure
func structure() { panic(struct{ a, b int }{1, 2}) }

func main() {
	debug.SetTraceback("crash")
	if len(os.Args) > 9 {
		C.of_libc() // links libc, without which the runtime cannot be preloaded
	}
	ways := map[string]func(){"text": text, "wrapped": wrapped, "stringer": stringer, "number": number, "index": index, "null": null,
		"goroutine": goroutine, "deferred": deferred, "structure": structure}
	ways[os.Args[1]]()
}
