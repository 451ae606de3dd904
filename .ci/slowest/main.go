// Slowest reads the output of go test -json, prints what go test prints without -json, and at the
// end the twenty slowest tests:
//
//	go test -json ./... | go run ./.ci/slowest
//
// It ends with code 1 if a package failed. Time in which a test is paused for others does not
// count.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	var tests []event
	said, failed := map[string]string{}, false // what each test says, until it passes
	in := bufio.NewReader(os.Stdin)
	for line, err := in.ReadString('\n'); err == nil; line, err = in.ReadString('\n') {
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Print(line) // a program that writes past the test
			continue
		}
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "":
			fmt.Print(e.Output)
		case e.Action == "output":
			said[key] += e.Output
		case e.Test == "":
			failed = failed || e.Action == "fail" || e.Action == "build-fail"
		case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
			if e.Action == "fail" {
				fmt.Print(said[key])
			}
			delete(said, key)
			tests = append(tests, e)
		}
	}
	slices.SortFunc(tests, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Println("\nThe slowest tests:")
	for _, e := range tests[:min(20, len(tests))] {
		fmt.Printf("%7.1f s  %s  %s\n", e.Elapsed, e.Package, e.Test)
	}
	if failed {
		os.Exit(1)
	}
}
