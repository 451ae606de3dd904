package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "routekeeper.dev/routekeeper"

// imports says which packages a package may import, and why. A new entry changes the design: the
// commit says why.
var imports = map[string]map[string]string{
	"": {"internal/cli": "main only starts the command line"},
	"cmd/routekeeper-controller": {"internal/cli": "the command line",
		"internal/controller": "the work"},
	"api/v1alpha1":        {},
	"internal/arm":        {},
	"internal/lazy":       {},
	"internal/inventory":  {"internal/arm": "IDs, and how documents read"},
	"docs":                {},
	"internal/finding":    {"docs": "the texts about findings"},
	"internal/input":      {},
	"internal/licenses":   {},
	"internal/openfiles":  {"internal/finding": "reports it"},
	"internal/yamllimits": {},
	"internal/config": {"api/v1alpha1": "reads it", "internal/arm": "IDs",
		"internal/yamllimits": "limits of YAML",
		"internal/inventory":  "checks resource IDs"},
	"internal/plan": {"api/v1alpha1": "what is wanted", "internal/arm": "IDs",
		"internal/inventory": "what was read", "internal/finding": "what it reports",
		"internal/config": "which pod CIDRs can be meant", "internal/capacity": "what an upgrade " +
			"takes"},
	"internal/trace": {"internal/arm": "IDs", "internal/inventory": "the snapshot"},
	"internal/egress": {"internal/arm": "IDs", "internal/inventory": "the snapshot",
		"internal/finding": "quotes commands"},
	"internal/capacity": {},
	"internal/topic":    {"docs": "the text"},
	"internal/policy":   {"internal/arm": "IDs"},
	"internal/prevent": {"api/v1alpha1": "what is guarded", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/plan": "what ends with kubenet",
		"internal/policy": "what assigned policies do"},
	"internal/iac": {"internal/arm": "IDs", "internal/inventory": "the snapshot",
		"internal/finding": "what would break", "internal/iac/armtemplate": "evaluates templates",
		"internal/iac/yamltree": "reads manifests"},
	"internal/iac/assess": {"internal/iac": "the changes", "internal/diagnose": "their result",
		"internal/arm": "IDs", "internal/inventory": "the network before and after",
		"api/v1alpha1": "configs of the clusters", "internal/finding": "what would be wrong",
		"internal/plan": "configs to propose", "internal/prevent": "what refuses the changes"},
	"internal/iac/armtemplate": {},
	"internal/iac/yamltree":    {"internal/yamllimits": "limits of YAML"},
	"internal/iac/generate": {"internal/arm": "IDs of what is there",
		"internal/prevent": "the rules of policies",
		"internal/build":   "what create makes", "internal/capacity": "blueprints",
		"internal/finding": "quotes commands"},
	"internal/provision": {"internal/build": "the steps", "internal/azure": "takes them",
		"internal/arm": "IDs", "internal/inventory": "whether a document is settled"},
	"internal/prove": {"docs": "the texts of the facts",
		"internal/iac/generate": "the rights that it tries", "internal/arm": "IDs",
		"internal/inventory": "what permissions grant"},
	"internal/prove/lab": {
		"internal/prove": "the facts that it tries", "internal/azure": "makes the calls",
		"internal/arm": "IDs and documents", "internal/inventory": "settled documents, permissions",
		"internal/finding": "quotes commands",
	},
	"internal/bundle": {"api/v1alpha1": "the configs in it",
		"internal/config": "which names those can have", "internal/arm": "IDs",
		"internal/inventory": "the snapshot"},
	"internal/diagnose": {"api/v1alpha1": "what is configured", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/finding": "what is wrong",
		"internal/plan":  "which table is whose, and what a keeper would report",
		"internal/trace": "the paths of packets", "internal/capacity": "what fits",
		"internal/egress": "what firewalls lack", "internal/verdict": "which egress is astray",
		"internal/prevent": "which policies are in the way"},
	"internal/monitor": {"api/v1alpha1": "what is managed", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/plan": "which table is whose"},
	"internal/build": {
		"api/v1alpha1": "what is configured", "internal/arm": "IDs and documents",
		"internal/inventory": "the snapshot",
		"internal/finding":   "what is wrong",
		"internal/diagnose":  "says what is wrong, and counts",
		"internal/plan":      "which routes are whose", "internal/trace": "the paths of packets",
		"internal/capacity": "what fits",
	},
	"internal/migrate": {
		"internal/diagnose": "what blocks", "internal/plan": "which routes are whose",
		"internal/inventory": "the snapshot", "internal/arm": "IDs",
		"internal/finding": "blockers, and commands", "internal/capacity": "batches of nodes",
		"internal/prevent": "which policies block",
	},
	"internal/report": {
		"internal/migrate": "plans off kubenet, shown", "internal/egress": "names, shown",
		"internal/build":  "claims, shown",
		"internal/config": "edits, shown", "internal/finding": "shows it",
		"internal/verdict": "states of clusters, shown",
		"internal/plan":    "shows it",
		"internal/trace":   "paths, shown", "internal/capacity": "what fits, shown",
		"internal/prove": "facts, shown", "internal/monitor": "what is watched, shown",
		"internal/arm": "names of resources",
	},
	"internal/azure": {"internal/arm": "IDs", "internal/inventory": "reads into it",
		"internal/finding": "quotes commands"},
	"internal/kube": {
		"internal/input": "reads files from others", "api/v1alpha1": "the status of objects",
		"internal/arm": "IDs", "internal/inventory": "reads into it",
		"internal/finding": "quotes commands"},
	"internal/observe": {"api/v1alpha1": "what to read for",
		"internal/plan": "says what it still needs", "internal/arm": "IDs",
		"internal/inventory": "the snapshot"},
	"internal/survey": {"api/v1alpha1": "configs, read and proposed", "internal/azure": "reads",
		"internal/observe": "reads until a plan has what it needs", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/plan": "proposes configs"},
	"internal/apply": {"internal/azure": "what a write was", "internal/plan": "plans again",
		"internal/arm": "IDs", "internal/inventory": "decodes and edits",
		"internal/finding": "what went wrong"},
	"internal/keeper": {"api/v1alpha1": "what to keep", "internal/observe": "reads for it",
		"internal/apply": "writes for it", "internal/azure": "reads and writes",
		"internal/plan": "decides", "internal/arm": "IDs", "internal/inventory": "the snapshot",
		"internal/finding": "what went wrong", "internal/verdict": "how each cluster is"},
	"internal/serve": {
		"internal/input": "reads files from others", "internal/openfiles": "how many there can be",
		"api/v1alpha1": "which subnets are guarded",
		"internal/arm": "IDs in events", "internal/keeper": "checks, counted",
		"internal/azure": "calls, counted", "internal/plan": "changes, counted",
		"internal/finding": "findings, counted", "internal/serve/page": "what people see"},
	"internal/silence": {"internal/finding": "what is silenced",
		"internal/input": "reads its file"},
	"internal/notify": {"api/v1alpha1": "the places", "internal/finding": "what it tells",
		"internal/verdict": "the states of clusters",
		"internal/arm":     "names of tables",
		"internal/plan":    "repairs"},
	"internal/picture": {"api/v1alpha1": "what is configured", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/plan": "which routes are whose"},
	"internal/verdict": {"api/v1alpha1": "what is configured", "internal/arm": "IDs",
		"internal/inventory": "the snapshot", "internal/plan": "what was read and remembered",
		"internal/picture": "subnets and routes", "internal/trace": "the paths of packets",
		"internal/finding": "why packets are lost"},
	"internal/serve/page": {"api/v1alpha1": "the configs of the checks it shows",
		"internal/verdict": "how each cluster is",
		"internal/keeper":  "the checks it shows", "internal/history": "what was done",
		"internal/picture": "what it draws", "internal/plan": "changes",
		"internal/finding": "what it shows", "internal/arm": "IDs",
		"internal/inventory": "IDs", "internal/report": "words for numbers",
		"internal/silence": "what people silenced and paused"},
	"internal/history": {
		"internal/input":  "reads files from others",
		"internal/keeper": "the checks it records",
		"internal/plan":   "what was changed", "internal/finding": "which appeared and disappeared",
		"internal/arm": "IDs", "internal/inventory": "what was seen",
		"internal/azure": "who wrote what", "internal/verdict": "states, for status"},
	"internal/emulator/names": {},
	"internal/emulator/kernel": {
		"internal/input": "reads files from others", "internal/yamllimits": "limits of YAML",
		"internal/arm": "IDs"},
	"internal/emulator/network": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/inventory": "decoders of routes and prefixes, and how many routes fit"},
	"internal/emulator/entra": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself"},
	"internal/emulator/authorization": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/policy":           "evaluates rules",
		"internal/emulator/network": "what a document links to, and joins",
		"internal/emulator/entra":   "who the principals are",
	},
	"internal/emulator/compute": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/emulator/network": "addresses of instances",
		"internal/emulator/entra":   "identities of scale sets",
	},
	"internal/emulator/aks": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/emulator/network":       "addresses of nodes and pods, who uses a table",
		"internal/emulator/compute":       "the instances of its pools",
		"internal/emulator/entra":         "identities and tokens of clusters",
		"internal/emulator/authorization": "what clusters and their users may do",
		"internal/inventory":              "names of routes, prefixes",
	},
	"internal/emulator/resources": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/emulator/entra":         "who issues a tenant's tokens",
		"internal/emulator/authorization": "which subscriptions a caller sees",
	},
	"internal/emulator/insights": {"internal/emulator/names": "its properties",
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/emulator/entra":         "tokens for webhooks",
		"internal/emulator/authorization": "which records a caller sees",
	},
	"internal/emulator/keyvault": {
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
	},
	"internal/emulator/deployments": {
		"internal/arm": "IDs", "internal/emulator/kernel": "adds itself",
		"internal/emulator/network":       "which fields only Azure writes",
		"internal/emulator/authorization": "what who deploys may do",
		"internal/iac/armtemplate":        "evaluates the templates",
	},
	"internal/emulator/control": {
		"internal/arm": "IDs", "internal/emulator/kernel": "faults and the request log",
		"internal/emulator/aks":           "nodes and cloud providers",
		"internal/emulator/authorization": "delays roles",
		"internal/emulator/entra":         "registers issuers",
	},
	// The services use of the rest of the program IDs, decoders and the template evaluator, and
	// nothing else: the emulator is the judge of the others.
	"internal/emulator": {
		"internal/input": "reads files from others",
		"internal/arm":   "IDs", "internal/inventory": "how many routes fit into a table",
		"internal/emulator/kernel":        "puts it and the services together",
		"internal/emulator/network":       "a service",
		"internal/emulator/compute":       "a service",
		"internal/emulator/aks":           "a service",
		"internal/emulator/entra":         "a service",
		"internal/emulator/authorization": "a service",
		"internal/emulator/resources":     "a service",
		"internal/emulator/insights":      "a service",
		"internal/emulator/keyvault":      "a service",
		"internal/emulator/deployments":   "a service",
		"internal/emulator/control":       "control calls",
	},
	"emulator": {
		"internal/emulator":            "what other people's tests import it for",
		"internal/emulator/kubernetes": "option KubeAPIServer",
		"internal/arm":                 "IDs",
	},
	"internal/hello": {"internal/kube": "deploys the demo, and calls its pods",
		"internal/finding": "quotes commands"},
	"internal/emulator/kubernetes": {
		"internal/emulator": "its clusters get a real API server",
		"internal/hello":    "what simulated pods serve", "internal/arm": "IDs",
	},
	"internal/emulator/kubernetes/kubernetestest": {
		"internal/emulator/kubernetes": "finds its programs for tests"},
	// tests only: other packages' tests paste the commands of their findings
	"internal/finding/pastetest": {"internal/finding": "the commands"},
	"internal/emulator/emulatortest": {"internal/emulator": "serves it to tests",
		"internal/azure": "connects tests to it", "internal/arm": "IDs",
		"internal/inventory": "IDs"},
	// tests only: recorded answers of the real Azure judge package emulator
	"internal/recordings": {},
	"internal/demo": {"api/v1alpha1": "the demo's config",
		"internal/emulator": "where it is played", "internal/keeper": "who plays",
		"internal/plan": "what was done", "internal/finding": "why nothing was done",
		"internal/arm": "IDs", "internal/inventory": "IDs",
		"internal/trace": "what packets past a firewall take"},
	"internal/daemon": {
		"internal/input": "reads files from others", "internal/openfiles": "whether they run out",
		"api/v1alpha1": "what to keep", "internal/azure": "connects, and asks for writers",
		"internal/keeper": "the loop", "internal/history": "records it",
		"internal/serve":      "the listener",
		"internal/notify":     "tells people",
		"internal/silence":    "what people silenced and paused",
		"internal/inventory":  "what a recorder gets",
		"internal/serve/page": "shows the checks", "internal/plan": "outcomes in the log",
		"internal/finding": "findings in the log", "internal/report": "words for numbers",
		"internal/verdict": "states in the log",
	},
	"internal/controller": {
		"internal/input": "reads files from others", "internal/yamllimits": "limits of YAML",
		"api/v1alpha1": "what objects say", "internal/daemon": "what the leader runs",
		"internal/keeper":  "takes its checks, withholds changes",
		"internal/config":  "checks objects as it checks documents",
		"internal/plan":    "which table is the cluster's, and kinds of changes",
		"internal/picture": "counts routes for the status",
		"internal/verdict": "whether packets are dropped",
		"internal/finding": "conditions, Events",
		"internal/arm":     "IDs in scopes", "internal/inventory": "the cluster that was read",
	},
	"internal/cli": {
		"internal/input": "reads files from others", "internal/openfiles": "whether they run out",
		"api/v1alpha1":    "schema",
		"internal/config": "-f", "internal/arm": "IDs",
		"internal/inventory": "IDs in flags", "internal/plan": "diff and init",
		"internal/observe": "reads for init and doctor", "internal/finding": "exit codes",
		"internal/report": "output", "internal/azure": "connects", "internal/keeper": "sync",
		"internal/daemon": "run and pause", "internal/serve": "flags of run --listen, and demo " +
			"--web", "internal/serve/page": "demo --web", "internal/emulator": "the command",
		"internal/emulator/kubernetes": "emulator --kube-apiserver",
		"internal/hello":               "cluster hello, and the program in its pods",
		"internal/demo":                "the command", "internal/capacity": "the command",
		"internal/trace": "the command", "internal/diagnose": "doctor",
		"internal/egress":  "trace --egress",
		"internal/verdict": "doctor and status",
		"internal/bundle":  "collect", "internal/kube": "nodes and pods",
		"internal/history": "what was done", "internal/iac": "the commands",
		"internal/iac/assess": "iac check", "internal/survey": "init, doctor and others",
		"internal/licenses":     "the command",
		"internal/iac/generate": "the command", "internal/monitor": "init monitor",
		"internal/migrate": "the command", "internal/notify": "notify test",
		"internal/silence": "silence and pause", "internal/prevent": "the command",
		"internal/build": "cluster create and verify", "internal/provision": "cluster create " +
			"and delete", "internal/topic": "explain", "internal/prove": "the facts to try",
		"internal/prove/lab": "tries them"},
}

// pure packages decide and show. They take and return values: no context, clock, log, network or
// files.
var pure = []string{"api/v1alpha1", "internal/arm", "internal/inventory", "internal/finding",
	"internal/config", "internal/yamllimits", "internal/plan", "internal/trace",
	"internal/capacity", "internal/diagnose", "internal/bundle", "internal/iac",
	"internal/iac/armtemplate", "internal/iac/assess", "internal/iac/generate",
	"internal/iac/yamltree", "internal/monitor", "internal/picture", "internal/report",
	"internal/build", "internal/prove", "internal/migrate", "internal/egress",
	"internal/verdict", "internal/prevent", "internal/policy"}

// impure are the imports that a pure package must not have, and why.
var impure = map[string]string{
	"context": "nothing in it waits", "os": "files come from the caller",
	"net":      "it has no network (net/netip is fine)",
	"net/http": "it has no network", "log": "its results say everything",
	"log/slog": "its results say everything",
	"os/exec":  "it starts nothing", "math/rand": "the same input gives the same output",
	"math/rand/v2": "the same input gives the same output", "sync": "it does one thing at a time",
}

type goPackage struct {
	ImportPath, Dir, Name, Doc         string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []goPackage {
	out, err := exec.Command("go", "list", "-json", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestLean checks that the programs link no large libraries that they do not need, and that tests
// compile none that a module of tests can use: Prometheus (deploy) and the SDK's resource modules
// (internal/clients).
// Kubernetes' typed clients and models take longer to build than all of this module. Packages kube
// and controller decode what they need, and nothing imports them, no test either.
func TestLean(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "./cmd/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	required, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"/azure-sdk-for-go/sdk/resourcemanager/",
		"github.com/prometheus/prometheus "} {
		if strings.Contains(string(required), m) {
			t.Errorf("go.mod requires %s", m)
		}
	}
	for _, p := range strings.Fields(string(out)) {
		if typedClient(p) {
			t.Errorf("a program links %s", p)
		}
	}
	for _, p := range packages(t) {
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if typedClient(i) {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
}

// typedClient reports whether a package is Kubernetes' typed client, or belongs to it.
func typedClient(p string) bool {
	return slices.ContainsFunc([]string{"k8s.io/api/", "k8s.io/client-go/applyconfigurations/",
		"k8s.io/client-go/informers", "k8s.io/client-go/kubernetes", "k8s.io/client-go/listers/",
		"k8s.io/client-go/tools/leaderelection", "sigs.k8s.io/controller-runtime"},
		func(prefix string) bool { return strings.HasPrefix(p, prefix) })
}

// anyone may use this package, as the standard library.
const anyone = "internal/lazy"

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		pkg := strings.Trim(strings.TrimPrefix(p.ImportPath, module), "/")
		seen[pkg] = true
		allowed, known := imports[pkg]
		if !known {
			t.Errorf("package %s is not listed: add it here", p.ImportPath)
		}
		for _, i := range p.Imports {
			other, ours := strings.CutPrefix(i, module+"/")
			if ours && allowed[other] == "" && other != anyone {
				t.Errorf("%s must not use %s", pkg, other)
			}
			if why := impure[i]; why != "" && slices.Contains(pure, pkg) {
				t.Errorf("%s must not import %s: %s", pkg, i, why)
			}
		}
	}
	for pkg := range imports {
		if !seen[pkg] {
			t.Errorf("package %q is gone: remove it here", pkg)
		}
	}
}

// TestPackages checks that each package has a comment and a name that says something, that pure
// packages do not read the clock, and that files are short.
func TestPackages(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.Trim(strings.TrimPrefix(p.ImportPath, module), "/")
		if p.Doc == "" {
			t.Errorf("%s has no package comment", pkg)
		}
		if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"},
			p.Name) {
			t.Errorf("%s: %s says nothing of what is in it", pkg, p.Name)
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(source, []byte("\n")); lines > 500 {
				t.Errorf("%s/%s has %d lines, at most 500: it does more than one thing", pkg,
					name, lines)
			}
			if slices.Contains(pure, pkg) && !strings.HasSuffix(name, "_test.go") {
				checkClock(t, path, source)
			}
		}
	}
}

// checkClock reports functions of package time that read the clock.
func checkClock(t *testing.T, path string, source []byte) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" &&
				slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc",
					"NewTimer", "NewTicker", "Tick"}, s.Sel.Name) {
				t.Errorf("%s reads the clock: time.%s", path, s.Sel.Name)
			}
		}
		return true
	})
}
