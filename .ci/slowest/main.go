// Slowest reads the output of go test -json, prints what go test prints without -json, and at the
// end the twenty slowest tests:
//
//	go test -json ./... | go run ./.ci/slowest
//
// It ends with code 1 if a package failed. Time in which a test is paused for others does not
// count.
//
// With -skipped FILE it writes the skipped tests as arguments of go test: a package and a pattern
// on each line. With -no-skips a skipped test is a failure.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func main() {
	list := flag.String("skipped", "", "write the skipped tests into `FILE`")
	noSkips := flag.Bool("no-skips", false, "fail if a test is skipped")
	flag.Parse()
	var tests, skipped []event
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
			if e.Action == "skip" {
				skipped = append(skipped, e)
			}
			if e.Action == "fail" || e.Action == "skip" && *noSkips {
				fmt.Print(said[key])
				failed = true
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
	if *list != "" {
		if err := os.WriteFile(*list, []byte(patterns(skipped)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "slowest:", err)
			os.Exit(1)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// patterns returns the lines for go test -run: one for the tests of a package, and one for the
// subtests of each of its tests.
func patterns(skipped []event) string {
	names := map[string][]string{} // by "package\t^Test/", or "package\t"
	for _, e := range skipped {
		if e.Test == "" {
			continue // a package without tests
		}
		prefix, name := e.Package+"\t", e.Test
		if test, sub, is := strings.Cut(e.Test, "/"); is {
			prefix, name = prefix+"^"+test+"$/", sub
		}
		names[prefix] = append(names[prefix], regexp.QuoteMeta(name))
	}
	var lines strings.Builder
	for _, prefix := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&lines, "%s^(%s)$\n", prefix, strings.Join(names[prefix], "|"))
	}
	return lines.String()
}
