package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(name, "cli.test") {
		emulatortest.Overlap(16)
		// Memory is not short: tests and their programs collect garbage less often.
		if os.Getenv("GOGC") == "" {
			os.Setenv("GOGC", "400")
			debug.SetGCPercent(400)
		}
	}
	main := func() { os.Exit(Main()) }
	testscript.Main(runner(func() int { return pastetest.Main(m.Run) }),
		map[string]func(){"routekeeper": main, "kubectl-routekeeper": main,
			"routekeeper-batch": runBatch})
}

// runner runs the tests.
type runner func() int

func (r runner) Run() int { return r() }

var operator = emulator.Principal{Name: "operator",
	ClientID: "0a0a0000-0000-4000-8000-000000000002", Secret: "local-secret",
	ObjectID: "0b0b0000-0000-4000-8000-000000000002"}

// TestScripts drives the built binary. In addition to testscript's commands there are:
//
//	exits CODE [<FILE] [exec] command…
//	                        run a command that must exit with that code. The commands of routekeeper
//	                        that a script runs this way share a process, but those after exec
//	azure demo|empty [kubernetes] [strict] [two]
//	                        serve an emulator; $AZ is its folder, $CLUSTER, $NODES, $GWTABLE and so on
//	                        are IDs in it; with kubernetes, its clusters have real API servers; with
//	                        strict, it requires of a cluster what AKS requires, and new roles take
//	                        effect after three seconds; with two, it has two subscriptions
//	controller              build routekeeper-controller, for exec
//	kubectl …               run the kubectl that .ci/kube builds with kube.yaml
//	machine SUBNET PREFIX TABLE   make a subnet with a machine's network interface in it
//	strip nodes|appgw…      redeploy subnets without their tables
//	like                    make another cluster with the demo's pod CIDR, in its own network
//	scale N                 set the number of nodes
//	alert URL [AUDIENCE]    make activity log alerts on writes of tables and subnets call a webhook
//	monitor others|disable|show|list   what people do to alert rules and action groups, and what exists
//	freeport VAR            put a free port into a variable, and the tenant's ID into TENANT
//	hook                    play Slack, Teams and webhooks at $HOOK; NAME.hook is what they got
//	routes TABLE            print a table's routes as "prefix hop", sorted by the table
//	addroute TABLE NAME PREFIX HOP   add a route, with a field that no SDK knows
//	routebytes TABLE        print a table's routes, without the fields that every write changes
//	fault JSON|clear        inject a fault for the keeper, or remove all
//	until command…          run a command until it succeeds, for at most 3 minutes
//	checked [N]             wait until the keeper has read something three times, or N times, more: it
//	                        has made a whole check in between
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			testdata, err := filepath.Abs("../../testdata")
			e.Setenv("REALTABLE",
				filepath.Join(testdata, "arm", "routetable-byo-kubenet-with-egress.json"))
			e.Setenv("GOGC", os.Getenv("GOGC"))
			e.Setenv("TERRAFORM", filepath.Join(testdata, "terraform"))
			e.Setenv("AZTABLES", filepath.Join(testdata, "az"))
			// Do not use the machine's own Azure login.
			e.Setenv("AZURE_CONFIG_DIR", filepath.Join(e.WorkDir, "no-azure"))
			e.Values["batch"] = &scriptBatch{env: e}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      scriptExits,
			"azure":      scriptAzure,
			"strip":      scriptStrip,
			"like":       scriptLike,
			"scale":      scriptScale,
			"alert":      scriptAlert,
			"monitor":    scriptMonitor,
			"freeport":   scriptFreePort,
			"fetch":      scriptFetch,
			"press":      scriptPress,
			"hook":       scriptHook,
			"confirm":    scriptConfirm,
			"routes":     scriptRoutes,
			"fault":      scriptFault,
			"addroute":   scriptAddRoute,
			"routebytes": scriptRouteBytes,
			"kubeconfig": scriptKubeconfig,
			"until":      scriptUntil,
			"cluster":    scriptCluster,
			"arm":        scriptARM,
			"deploy":     scriptDeploy,
			"saved":      scriptSaved,
			"kubectl":    scriptKubectl,
			"machine":    scriptMachine,
			"checked":    scriptChecked,
			"controller": scriptController,
		},
		Condition: scriptCondition,
	})
}

func scriptController(ts *testscript.TestScript, _ bool, _ []string) {
	_, err := buildController()
	ts.Check(err)
}

// azureOf is an emulator that a test serves, with the calls of an operator.
type azureOf struct {
	e    *emulator.Emulator
	op   *emulator.Client
	demo emulator.Demo
}

func scriptAzure(ts *testscript.TestScript, neg bool, args []string) {
	o := emulator.Options{RouteBatch: 50 * time.Millisecond,
		Probe: newSimulatedGateways(ts.MkAbs("az")).probe}
	var join []func(*emulator.Emulator) error
	for _, word := range args[1:] {
		switch word {
		case "kubernetes":
			join = append(join, withKubernetes(ts))
		case "fleet":
			join = append(join, func(e *emulator.Emulator) error {
				_, err := emulator.BuildFleet(e, operator)
				return err
			})
		case "strict":
			o.CheckClusterIdentity, o.RoleDelay = true, 3*time.Second
		case "two":
			o.Subscriptions = emulatortest.Subscriptions(2)
		default:
			ts.Fatalf("usage: azure demo|empty [fleet] [kubernetes] [strict] [two]")
		}
	}
	a, server, err := startAzure(ts.MkAbs("az"), args[0] == "demo", o, join...)
	ts.Check(err)
	ts.Defer(func() {
		server.Close()
		a.e.Close()
	})
	running.set(ts.Getenv("WORK"), a)
	ts.Setenv("AZ", ts.MkAbs("az"))
	for name, id := range map[string]arm.ID{
		"SUB": arm.ID(a.demo.Cluster.Subscription()), "CLUSTER": a.demo.Cluster,
		"NODES": a.demo.NodeSubnet, "GATEWAY": a.demo.GatewaySubnet,
		"TABLE": a.demo.ClusterTable, "GWTABLE": a.demo.GatewayTable,
	} {
		ts.Setenv(name, string(id))
	}
}

// startAzure serves an emulator with two principals and those of the options. It calls join before
// it serves anything.
func startAzure(dir string, demo bool, opts emulator.Options,
	join ...func(*emulator.Emulator) error) (*azureOf, *emulator.Server, error) {
	if opts.Buckets == (emulator.Buckets{}) {
		opts.Buckets = emulatortest.NoLimits
	}
	opts.Principals = append([]emulator.Principal{emulator.DefaultPrincipal, operator},
		opts.Principals...)
	opts.Key = emulator.SharedKey()
	e, err := emulator.New(opts)
	if err != nil {
		return nil, nil, err
	}
	a := &azureOf{e: e, demo: emulator.DemoIn(emulator.DefaultSubscription)}
	if a.op, err = e.Client(operator); err != nil {
		return nil, nil, err
	}
	if demo {
		if _, err := emulator.BuildDemo(e, operator); err != nil {
			return nil, nil, err
		}
	}
	for _, join := range join {
		if err := join(e); err != nil {
			return nil, nil, err
		}
	}
	server, err := e.Start(dir, "", "")
	return a, server, err
}

func scriptStrip(ts *testscript.TestScript, neg bool, args []string) {
	a := running.get(ts.Getenv("WORK"))
	for _, name := range args {
		ts.Check(a.strip(a.demo.NodeSubnet.Parent().Child("subnets", name)))
	}
}

func (a *azureOf) strip(id arm.ID) error {
	doc, err := a.op.Get(id, "2025-05-01")
	if err != nil {
		return err
	}
	delete(doc["properties"].(map[string]any), "routeTable")
	return a.op.Put(id, "2025-05-01", doc)
}

func scriptScale(ts *testscript.TestScript, neg bool, args []string) {
	a := running.get(ts.Getenv("WORK"))
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	if len(args) == 3 {
		ts.Check(a.e.Scale(arm.ID(args[1]), args[2], n))
		return
	}
	ts.Check(a.scale(n))
}

// scale sets the number of nodes and waits for their routes.
func (a *azureOf) scale(n int) error {
	if err := a.e.Scale(a.demo.Cluster, a.demo.Pool, n); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		lines, err := a.routes(a.demo.ClusterTable)
		if err != nil || len(lines) == n+1 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d routes, want %d", len(lines), n+1)
		}
	}
}

func (a *azureOf) routes(id arm.ID) ([]string, error) {
	doc, err := a.op.Get(id, "2025-05-01")
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, r := range doc["properties"].(map[string]any)["routes"].([]any) {
		p := r.(map[string]any)["properties"].(map[string]any)
		hop, isAddress := p["nextHopIpAddress"].(string)
		if !isAddress {
			hop = p["nextHopType"].(string)
		}
		lines = append(lines, fmt.Sprint(p["addressPrefix"], " ", hop))
	}
	return lines, nil
}

func scriptRoutes(ts *testscript.TestScript, neg bool, args []string) {
	lines, err := running.get(ts.Getenv("WORK")).routes(arm.ID(args[0]))
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), strings.Join(lines, "\n"))
}

func scriptAddRoute(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: addroute TABLE NAME PREFIX HOP")
	}
	a := running.get(ts.Getenv("WORK"))
	doc, err := a.op.Get(arm.ID(args[0]), "2025-05-01")
	ts.Check(err)
	p := doc["properties"].(map[string]any)
	p["routes"] = append(p["routes"].([]any),
		map[string]any{"name": args[1], "properties": map[string]any{
			"addressPrefix": args[2], "nextHopType": "VirtualAppliance",
			"nextHopIpAddress": args[3],
			"notInAnySDK":      map[string]any{"of": args[1], "answer": 42}}})
	ts.Check(a.op.Put(arm.ID(args[0]), "2025-05-01", doc))
}

var volatileBytes = regexp.MustCompile(`"(etag|provisioningState)":"(\\.|[^"])*",?`)

func scriptRouteBytes(ts *testscript.TestScript, neg bool, args []string) {
	status, body := running.get(ts.Getenv("WORK")).op.Do("GET", arm.ID(args[0]), "2025-05-01", nil)
	if status != 200 {
		ts.Fatalf("%d %s", status, body)
	}
	for _, r := range gjson.GetBytes(body, "properties.routes").Array() {
		fmt.Fprintln(ts.Stdout(), volatileBytes.ReplaceAllString(r.Raw, ""))
	}
}

func scriptFault(ts *testscript.TestScript, neg bool, args []string) {
	if args[0] == "clear" {
		running.get(ts.Getenv("WORK")).e.ClearFaults()
		return
	}
	f := emulator.Fault{Principal: emulator.DefaultPrincipal.Name}
	ts.Check(json.Unmarshal([]byte(args[0]), &f))
	_, err := running.get(ts.Getenv("WORK")).e.Inject(f)
	ts.Check(err)
}

func scriptChecked(ts *testscript.TestScript, neg bool, args []string) {
	times := 3
	if len(args) > 0 {
		var err error
		times, err = strconv.Atoi(args[0])
		ts.Check(err)
	}
	e := running.get(ts.Getenv("WORK")).e
	before := e.LastRequest()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		reads := map[string]int{}
		for _, r := range e.Requests(before) {
			if r.Method == "GET" && r.Principal == emulator.DefaultPrincipal.Name {
				if reads[r.Path]++; reads[r.Path] >= times {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			ts.Fatalf("after three minutes the keeper has read %v", reads)
		}
	}
}

func scriptKubeconfig(ts *testscript.TestScript, neg bool, args []string) {
	cluster := running.get(ts.Getenv("WORK")).demo.Cluster
	if len(args) > 1 {
		cluster = arm.ID(args[1])
	}
	writeKubeconfig(ts, cluster, ts.MkAbs(args[0]))
}

// writeKubeconfig writes a cluster's kubeconfig into a file, and returns it.
func writeKubeconfig(ts *testscript.TestScript, cluster arm.ID, path string) string {
	text, err := running.get(ts.Getenv("WORK")).kubeconfig(ts.Getenv("AZ"), cluster)
	ts.Check(err)
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
	return text
}

// kubeconfig is a cluster's kubeconfig. dir is the folder of the emulator.
func (a *azureOf) kubeconfig(dir string, cluster arm.ID) (string, error) {
	status, body := a.op.Do("POST", cluster+"/listClusterUserCredential", "2025-10-01", nil)
	if status != 200 {
		return "", fmt.Errorf("%d %s", status, body)
	}
	config, err := base64.StdEncoding.DecodeString(gjson.GetBytes(body,
		"kubeconfigs.0.value").String())
	if err != nil {
		return "", err
	}
	info, err := emulator.ReadInfo(dir)
	// It comes from the handler, and is used over HTTPS.
	return strings.Replace(string(config), "server: http://localhost/", "server: "+info.HTTPS+"/",
		1), err
}
