package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/hello"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/kube"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

type helloOptions struct {
	examineOptions
	namespace, image, listen string
	keep                     bool
	timeout                  time.Duration
}

func newClusterHello(a *app) *cobra.Command {
	var o helloOptions
	cmd := &cobra.Command{
		Use:   "hello NAME",
		Short: "Deploy a demo, and let every pod call every other pod",
		Long: `Deploys a small demo into its own namespace: one pod on every node, and two more
behind a service. Every pod calls every other pod, and a machine in each subnet
that must reach pods. The result says which calls arrive, how long they take and
which route they use, and which finding of routekeeper doctor explains a lost
call. At the end it removes the namespace.

It asks the pods by port-forward, which also works when their routes are lost. A
refused call counts as arrived, because packets went both ways. --listen shows
the page of a pod until Ctrl-C.
--image names an image that the cluster can pull, with routekeeper as its
entrypoint: there is no released image yet. The emulator needs none.

An interrupt also removes the demo. A second interrupt leaves it, and the next
run removes it. A namespace that belongs to another owner is refused.

Exit code 0: every pod is ready and every call arrives; 1: an error; 2: calls
are lost, or pods are not ready in time.`,
		Example: `  routekeeper cluster hello shop --image registry.example/routekeeper:v0.1.0
  routekeeper --emulator .azure-local cluster hello shop --listen 127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runClusterHello(cmd.Context(), a, o)
		},
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("expected the name or ID of one cluster, found %s",
				finding.Count(len(args), "argument"))
		}
		o.names = args
		return nil
	}
	cmd.ValidArgsFunction = a.complete(a.clusterNames, 1)
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "find the cluster in this subscription (`ID`)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "reach the cluster with this kubeconfig `FILE`")
	trustFlag(cmd, &o.trusted)
	f.StringVar(&o.context, "context", "", "the `NAME` of the kubeconfig's context")
	f.StringVarP(&o.namespace, "namespace", "n", "routekeeper-hello",
		"the namespace of the demo (`NAME`)")
	f.StringVar(&o.image, "image", hello.Released,
		"an image with routekeeper as its entrypoint (`IMAGE`); the emulator needs none")
	f.BoolVar(&o.keep, "keep", false, "do not remove the demo")
	f.StringVar(&o.listen, "listen", "", "show a pod's page at this `address` until Ctrl-C")
	durationFlag(f, &o.timeout, "timeout", 3*time.Minute, "how long pods may take to be ready")
	_ = cmd.MarkFlagFilename("kubeconfig")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// The names of namespaces and images that are allowed: both become part of the manifest.
var (
	namespaceName = lazy.Regexp(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	imageName     = lazy.Regexp(`^[\w][\w.:/@-]*$`)
)

// check checks the flags. The emulator pulls no image.
func (o *helloOptions) check(a *app) error {
	if o.image == "" && a.emulatorDir != "" {
		o.image = hello.Local
	}
	switch {
	case !namespaceName().MatchString(o.namespace):
		return fmt.Errorf("--namespace: %q is not the name of a namespace", o.namespace)
	case slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"},
		o.namespace):
		return fmt.Errorf("--namespace: the demo needs its own namespace, and deletes it: not %s",
			o.namespace)
	case o.image == "":
		return errors.New("--image: there is no released image yet; name one that the cluster " +
			"may pull, with routekeeper as its entrypoint")
	case !imageName().MatchString(o.image):
		return fmt.Errorf("--image: %q is not the name of an image", o.image)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout: %s is out of range, expected more than 0", o.timeout)
	}
	return nil
}

// demo prepares the demo on a cluster. Before anything is written, it proves that the Kubernetes
// API is the one of this cluster.
func (o helloOptions) demo(ctx context.Context, cluster *inventory.Cluster) (*hello.Demo, error) {
	client, err := kube.Load(kube.Options{Kubeconfig: o.kubeconfig, Context: o.context,
		Cluster: cluster, Trusted: o.trusted})
	if err != nil {
		return nil, err
	}
	if _, err := client.Read(ctx); err != nil {
		return nil, err
	}
	return &hello.Demo{Client: client, Namespace: o.namespace, Image: o.image}, nil
}

func runClusterHello(ctx context.Context, a *app, o helloOptions) (failed error) {
	if err := o.check(a); err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	o.withoutRights, o.allMachines = true, true
	e, err := examineAzure(ctx, a, o.examineOptions, progress)
	if err != nil {
		return err
	}
	demo, err := o.demo(ctx, e.Snapshot.Cluster(e.Clusters[0]))
	if err != nil {
		return err
	}
	demo.Tell = progress.now
	if !o.keep {
		defer func() { failed = removeDemo(ctx, a, demo, failed) }()
	}
	if err := demo.Deploy(ctx); err != nil {
		return leftBehind(demo, o.keep, err)
	}
	h, pods, err := callAround(ctx, a, o, e, demo, progress)
	if err != nil {
		return leftBehind(demo, o.keep, err)
	}
	if o.keep {
		h.Remove = demo.Leftover()
	}
	var page net.Listener
	if o.listen != "" {
		if page, err = net.Listen("tcp", o.listen); err != nil {
			return leftBehind(demo, o.keep, fmt.Errorf("--listen: %w", err))
		}
		defer page.Close()
		h.Page = "http://" + page.Addr().String() + "/"
	}
	progress.stop()
	if err := h.Write(w, format, style); err != nil {
		return leftBehind(demo, o.keep, err)
	}
	if o.keep {
		say(a.err, "the demo stays; remove it with: %s\n", h.Remove)
	}
	if page != nil {
		say(a.err, "%s is the page of a pod, until Ctrl-C\n", h.Page)
		showPage(ctx, page, demo, pods)
	}
	if !h.Whole() {
		return attention
	}
	return nil
}

// leftBehind adds to an error how to remove a demo that is still in the cluster.
func leftBehind(demo *hello.Demo, keep bool, err error) error {
	if keep && demo.Begun() {
		return fmt.Errorf("%w; the demo stays; remove it with: %s", err, demo.Leftover())
	}
	return err
}

// removeTime is how long the removal may take.
const removeTime = 2 * time.Minute

// removeDemo removes the demo, even after an interrupt. If that fails, the error says how to remove
// it.
func removeDemo(ctx context.Context, a *app, demo *hello.Demo, failed error) error {
	if !demo.Begun() {
		return failed
	}
	progress := a.progress(context.WithoutCancel(ctx), "removing the demo")
	defer progress.stop()
	demo.Tell = progress.now
	interrupted := ctx.Err() != nil
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), removeTime,
		fmt.Errorf("it takes longer than %s", removeTime))
	defer cancel()
	if interrupted {
		progress.say("removing the demo; Ctrl-C again leaves it, and then you can remove it " +
			"with: " + demo.Leftover())
	}
	if err := demo.Remove(ctx); err != nil {
		err = fmt.Errorf("removing the demo: %w; remove the rest with: %s", err, demo.Leftover())
		if errors.Is(failed, attention) {
			return err
		}
		return errors.Join(failed, err)
	}
	return failed
}

// showPage serves the page of the first pod that is ready, until the context ends.
func showPage(ctx context.Context, page net.Listener, demo *hello.Demo, pods []hello.Pod) {
	pod := pods[max(0, slices.IndexFunc(pods, func(p hello.Pod) bool { return p.Ready }))]
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "http", pod.Name
			},
			Transport: demo.Transport(pod, 1),
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusBadGateway)
			},
		},
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	_ = server.Serve(page) // until it is closed
}

// callAround waits for the pods, lets them call each other, and reports the results.
func callAround(ctx context.Context, a *app, o helloOptions, e *examination, demo *hello.Demo,
	progress *progress) (report.Hello, []hello.Pod, error) {
	cluster := e.Clusters[0]
	h := report.Hello{Cluster: cluster.Name()}
	pods, err := demo.Wait(ctx, o.timeout)
	if err != nil {
		return h, nil, err
	}
	ready := slices.DeleteFunc(slices.Clone(pods), func(p hello.Pod) bool {
		return !p.Ready || !p.Address.IsValid()
	})
	if len(ready) == 0 {
		why := "there is none"
		if len(pods) > 0 {
			why = pods[0].Name + ": " + pods[0].Why
		}
		return h, nil, fmt.Errorf("no pod of the demo was ready within %s (%s)", o.timeout, why)
	}
	names := map[netip.Addr]string{}
	var to []netip.Addr
	for _, p := range ready {
		names[p.Address] = p.Name
		to = append(to, p.Address)
	}
	t := trace.New(e.Snapshot, trace.Options{Cluster: cluster})
	others := map[netip.Addr]arm.ID{}
	for _, subnet := range t.Targets(cluster) {
		machine := firstOf(e.Snapshot, subnet.ID, e.Snapshot.Cluster(cluster))
		if !machine.IsValid() {
			name := subnet.ID.Short()
			h.Unknown = append(h.Unknown, "subnet "+name+": no machine with a network interface "+
				"is seen in it, and gateways answer no pod (routekeeper trace subnet/"+name+
				" says how packets go)")
			continue
		}
		to, others[machine] = append(to, machine), subnet.ID
		names[machine] = machine.String() + " in " + subnet.ID.Short()
	}
	asked := demo.CallAll(ctx, ready, to)
	if ctx.Err() != nil {
		return h, nil, ctx.Err()
	}
	// Read the network after the calls, so that it explains them, and with the demo's pods.
	progress.now("reading the network again")
	o.withoutRights = !slices.ContainsFunc(asked, func(a hello.Asked) bool {
		return slices.ContainsFunc(a.Calls, func(c hello.Call) bool { return !c.Arrived() })
	}) // permissions can explain a loss, but take many calls
	if e, err = examineAzure(ctx, a, o.examineOptions, progress); err == nil {
		err = examineKubernetes(ctx, a, o.kubernetesOptions, e)
	}
	if err != nil {
		return h, nil, err
	}
	h.Pods = helloPods(pods, asked)
	var lostTo []arm.ID
	t = trace.New(e.Snapshot, trace.Options{Protocol: "tcp", Port: hello.Port, Cluster: cluster})
	for _, from := range asked {
		for _, call := range from.Calls {
			address, err := netip.ParseAddr(call.To)
			if err != nil {
				return h, nil, fmt.Errorf("the program in pod %s names %q: is the image "+
					"routekeeper's?", from.Pod.Name, call.To)
			}
			c := carriedCall(t, from.Pod, names[address], address, call)
			subnet, other := others[address]
			switch {
			case c.Arrived:
				h.Arrived++
			case other && c.Traced == trace.Delivered:
				line := c.To + ": it does not answer, although according to Azure packets " +
					"arrive: its own firewall may drop them"
				if !slices.Contains(h.Unknown, line) {
					h.Unknown = append(h.Unknown, line)
				}
				continue
			case other:
				lostTo = append(lostTo, subnet)
			}
			h.Calls = append(h.Calls, c)
		}
	}
	if h.Arrived < len(h.Calls) {
		found, err := e.diagnosis(ctx)
		if err != nil {
			return h, nil, err
		}
		h.Findings = diagnose.Explains(e.Snapshot, cluster, lostTo, found)
	}
	return h, ready, nil
}

func helloPods(pods []hello.Pod, asked []hello.Asked) (out []report.HelloPod) {
	for _, p := range pods {
		for _, a := range asked {
			if a.Pod.Name == p.Name && a.Err != nil {
				p.Why = "it could not be asked: " + a.Err.Error()
			}
		}
		out = append(out, report.HelloPod(p))
	}
	return out
}

// carriedCall returns a call with the path of its packets, as Azure shows it.
func carriedCall(t *trace.Tracer, from hello.Pod, to string, address netip.Addr,
	call hello.Call) report.HelloCall {
	c := report.HelloCall{From: from.Name, To: to, Address: address, Arrived: call.Arrived(),
		Millis: call.Millis}
	c.Routes, c.AnswerRoutes = []string{}, []string{}
	c.Result = string(call.Result)
	if call.Error != "" && call.Result != hello.Refused {
		c.Result += ": " + call.Error
	}
	ways, err := waysBetween(t, from.Address.String(), address.String())
	if err != nil {
		c.Traced, c.Why = trace.Unknown, err.Error()
		return c
	}
	way := ways.There
	if way.Verdict == trace.Delivered {
		way = ways.Back
	}
	c.Traced, c.Why = way.Verdict, way.Why
	c.Routes, c.AnswerRoutes = hopsOf(ways.There), hopsOf(ways.Back)
	return c
}

// hopsOf returns the routes that a packet uses, each once.
func hopsOf(way trace.Way) []string {
	out := []string{}
	for _, hop := range way.Hops {
		if hop.Route != "" && !slices.Contains(out, hop.Route) {
			out = append(out, hop.Route)
		}
	}
	return out
}
