// Weight prints what it costs to build, run and change the program, so that growth is seen:
// processor seconds by package of a cold build, the programs' sizes, and lines by folder.
//
//	go run ./.ci/weight
//
// A cold build compiles everything again into a folder of its own, the standard library too; it
// takes some minutes. The modules must have been downloaded before.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const module = "routekeeper.dev/routekeeper"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weight:", err)
		os.Exit(1)
	}
}

func run() error {
	work, err := os.MkdirTemp("", "weight")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, p := range []string{".", "./cmd/routekeeper-controller"} {
		if err := weigh(work, p); err != nil {
			return err
		}
	}
	return lines()
}

// weigh builds a program. The first call builds with an empty cache, the second with that cache.
func weigh(work, source string) error {
	cache, graph := "GOCACHE="+filepath.Join(work, "cache"), filepath.Join(work, "graph.json")
	program := filepath.Join(work, "program")
	began := time.Now()
	if err := sh(cache, "go", "build", "-debug-actiongraph="+graph, "-o", program,
		source); err != nil {
		return err
	}
	took := time.Since(began)
	size, err := os.Stat(program)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(graph)
	if err != nil {
		return err
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	if err := json.Unmarshal(raw, &actions); err != nil {
		return err
	}
	spent, all := map[string]time.Duration{}, time.Duration(0)
	for _, a := range actions {
		if used := a.CmdUser + a.CmdSys; used > 0 {
			spent[group(a.Mode, a.Package)] += used
			all += used
		}
	}
	if err := sh(cache, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program,
		source); err != nil {
		return err
	}
	released, err := os.Stat(program)
	if err != nil {
		return err
	}
	fmt.Printf("go build %s: %.0f s, %.0f s of processor time; %.1f MB, as a release %.1f MB\n",
		source, took.Seconds(), all.Seconds(), megabytes(size), megabytes(released))
	groups := slices.SortedFunc(maps.Keys(spent), func(a, b string) int {
		return cmp.Compare(spent[b], spent[a])
	})
	for _, g := range groups[:min(15, len(groups))] {
		fmt.Printf("%8.1f s  %s\n", spent[g].Seconds(), g)
	}
	return nil
}

// group returns what an action of a build counts for: our own code, the standard library, or a
// module.
func group(mode, path string) string {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case mode == "link":
		return "linking"
	case strings.HasPrefix(path, module):
		return "our own code"
	case !strings.Contains(first, "."):
		return "the standard library"
	}
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(3, len(parts))], "/")
}

func megabytes(f os.FileInfo) float64 { return float64(f.Size()) / 1e6 }

// lines prints the lines of Go in each folder: code and tests.
func lines() error {
	out, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	type count struct{ code, tests int }
	folders, all := map[string]count{}, count{}
	for _, path := range strings.Fields(string(out)) {
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parts, n := strings.Split(path, "/"), bytes.Count(source, []byte("\n"))
		folder := strings.Join(parts[:min(2, len(parts)-1)], "/")
		c := folders[folder]
		if strings.HasSuffix(path, "_test.go") {
			c.tests, all.tests = c.tests+n, all.tests+n
		} else {
			c.code, all.code = c.code+n, all.code+n
		}
		folders[folder] = c
	}
	fmt.Printf("\nlines of Go: %d, and %d of tests\n", all.code, all.tests)
	for _, folder := range slices.SortedFunc(maps.Keys(folders), func(a, b string) int {
		return cmp.Compare(folders[b].code, folders[a].code)
	}) {
		fmt.Printf("%8d %8d  %s\n", folders[folder].code, folders[folder].tests,
			cmp.Or(folder, "(the top folder)"))
	}
	return nil
}

func sh(env, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Env, c.Stderr = append(os.Environ(), env), os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
