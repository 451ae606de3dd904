// Package hello is the demo of routekeeper cluster hello. It has the program that runs in the
// demo's pods and calls the other pods, the manifests, and the code that deploys the demo, makes
// every pod call every other pod, and removes the demo. It must not judge the results: the command
// does.
package hello

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/kube"
)

// Demo is the demo on one cluster.
type Demo struct {
	Client *kube.Client
	// Namespace belongs to the demo, and is deleted with it.
	Namespace string
	// Image is the image of the program, started with the argument hello.
	Image string
	// Tell receives what the demo waits for.
	Tell func(string)

	begun bool   // applying has begun
	uid   string // of the namespace, once the answer has come
}

// mark is the label of the demo's namespace. A namespace without it belongs to another owner.
const mark = "routekeeper.dev/demo"

// Pod is a pod of the demo.
type Pod struct {
	Name, Node string
	Address    netip.Addr
	Ready      bool
	Why        string // what a pod that is not ready waits for
}

func (d *Demo) namespace() kube.Object {
	return kube.Object{APIVersion: "v1", Plural: "namespaces", Name: d.Namespace}
}

// Leftover returns the command that removes the demo by hand.
func (d *Demo) Leftover() string {
	return finding.Command("kubectl delete namespace %s --context %s", d.Namespace,
		d.Client.Context()).String()
}

// namespaceDocument holds the fields of a namespace that the demo reads.
type namespaceDocument struct {
	Metadata struct {
		UID               string
		Labels            map[string]string
		DeletionTimestamp string
	}
}

// Deploy applies the manifests. It refuses a namespace of another owner. It takes over one that an
// earlier run left.
func (d *Demo) Deploy(ctx context.Context) error {
	for {
		found, err := d.readNamespace(ctx)
		switch {
		case errors.Is(err, kube.ErrNotFound):
		case err != nil:
			return err
		case found.Metadata.Labels[mark] == "":
			return fmt.Errorf("namespace %s exists and does not belong to the demo (it lacks the "+
				"label %s): nothing was changed; "+
				"name another one with --namespace", d.Namespace, mark)
		case found.Metadata.DeletionTimestamp != "":
			d.Tell("waiting until namespace " + d.Namespace + " of an earlier run is gone")
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		break
	}
	all, err := documents(d.Namespace, d.Image)
	if err != nil {
		return err
	}
	for _, doc := range all {
		d.Tell("applying " + doc.String())
		d.begun = true
		answer, err := d.Client.Apply(ctx, doc.Object, doc.raw)
		if err != nil {
			return err
		}
		if doc.Plural == "namespaces" {
			var made namespaceDocument
			if err := json.Unmarshal(answer, &made); err != nil {
				return err
			}
			d.uid = made.Metadata.UID
		}
	}
	return nil
}

func (d *Demo) readNamespace(ctx context.Context) (found namespaceDocument, err error) {
	raw, err := d.Client.Get(ctx, d.namespace())
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found, err
}

// Begun reports whether there may be something to remove.
func (d *Demo) Begun() bool { return d.begun }

// Remove deletes the demo's namespace with its contents, and waits until it is gone.
func (d *Demo) Remove(ctx context.Context) error {
	if d.uid == "" { // the answer to the first apply was lost
		found, err := d.readNamespace(ctx)
		if errors.Is(err, kube.ErrNotFound) || err == nil && found.Metadata.Labels[mark] == "" {
			return nil
		}
		if err != nil {
			return err
		}
		d.uid = found.Metadata.UID
	}
	if err := d.Client.Delete(ctx, d.namespace(), d.uid); err != nil {
		return err
	}
	for {
		found, err := d.readNamespace(ctx)
		if errors.Is(err, kube.ErrNotFound) || err == nil && found.Metadata.UID != d.uid {
			return nil
		}
		if err != nil {
			return err
		}
		d.Tell("waiting until namespace " + d.Namespace + " is gone")
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("namespace %s is being deleted, and not gone yet: %w", d.Namespace,
				err)
		}
	}
}

// Wait waits until all pods of the demo are ready or the limit is over, and returns the pods.
func (d *Demo) Wait(ctx context.Context, limit time.Duration) ([]Pod, error) {
	deadline := time.Now().Add(limit)
	for {
		want, complete, err := d.wanted(ctx)
		if err != nil {
			return nil, err
		}
		pods, err := d.Pods(ctx)
		if err != nil {
			return nil, err
		}
		ready := 0
		for _, p := range pods {
			if p.Ready {
				ready++
			}
		}
		if complete && ready == want && len(pods) == want {
			return pods, nil
		}
		if time.Now().After(deadline) {
			return pods, nil
		}
		d.Tell(fmt.Sprintf("waiting for pods: %d of %d are ready", ready, want))
		if err := sleep(ctx, 500*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// wanted returns the expected number of pods. complete is set once the controllers have seen the
// manifests, and all pods are made from them.
func (d *Demo) wanted(ctx context.Context) (pods int, complete bool, err error) {
	complete = true
	for _, o := range []kube.Object{{Plural: "daemonsets", Name: "hello-node"},
		{Plural: "deployments", Name: "hello-web"}} {
		o.APIVersion, o.Namespace = "apps/v1", d.Namespace
		raw, err := d.Client.Get(ctx, o)
		if err != nil {
			return 0, false, err
		}
		var workload struct {
			Metadata struct{ Generation int }
			Spec     struct{ Replicas int }
			Status   struct {
				ObservedGeneration, DesiredNumberScheduled, UpdatedNumberScheduled,
				UpdatedReplicas int
			}
		}
		if err := json.Unmarshal(raw, &workload); err != nil {
			return 0, false, err
		}
		s := workload.Status
		complete = complete && s.ObservedGeneration >= workload.Metadata.Generation
		if o.Plural == "deployments" {
			pods += workload.Spec.Replicas
			complete = complete && s.UpdatedReplicas == workload.Spec.Replicas
		} else {
			pods += s.DesiredNumberScheduled
			complete = complete && s.UpdatedNumberScheduled == s.DesiredNumberScheduled &&
				s.DesiredNumberScheduled > 0
		}
	}
	return pods, complete, nil
}

// Pods returns the demo's pods without terminating ones, sorted by node and name.
func (d *Demo) Pods(ctx context.Context) ([]Pod, error) {
	raw, err := d.Client.Get(ctx,
		kube.Object{APIVersion: "v1", Plural: "pods", Namespace: d.Namespace})
	if err != nil {
		return nil, err
	}
	var list struct{ Items []podDocument }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	pods := []Pod{}
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp == "" {
			pods = append(pods, p.pod())
		}
	}
	slices.SortFunc(pods, func(a, b Pod) int {
		return strings.Compare(a.Node+" "+a.Name, b.Node+" "+b.Name)
	})
	return pods, nil
}

// podDocument holds the fields of a pod that the demo reads.
type podDocument struct {
	Metadata struct{ Name, DeletionTimestamp string }
	Spec     struct{ NodeName string }
	Status   struct {
		PodIP             string
		Conditions        []struct{ Type, Status, Message string }
		ContainerStatuses []struct {
			State struct {
				Waiting struct{ Reason, Message string }
			}
		}
	}
}

func (p podDocument) pod() Pod {
	out := Pod{Name: p.Metadata.Name, Node: p.Spec.NodeName}
	out.Address, _ = netip.ParseAddr(p.Status.PodIP) // "" until it has one
	for _, c := range p.Status.Conditions {
		out.Ready = out.Ready || c.Type == "Ready" && c.Status == "True"
		if c.Status != "True" && c.Message != "" {
			out.Why = c.Message
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w.Reason != "" {
			out.Why = strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	if out.Ready {
		out.Why = ""
	}
	return out
}

// Transport connects to the program in a pod by port-forward, at most a number of times at once.
func (d *Demo) Transport(pod Pod, atOnce int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: atOnce, MaxConnsPerHost: atOnce,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.Client.Dial(ctx, d.Namespace, pod.Name, Port)
		}}
}

// Asked is a pod with the results of its calls, in the order of the addresses. Err says why the pod
// could not be asked.
type Asked struct {
	Pod   Pod
	Calls []Call
	Err   error
}

// CallAll makes each pod call all addresses except its own.
func (d *Demo) CallAll(ctx context.Context, pods []Pod, to []netip.Addr) []Asked {
	out := make([]Asked, len(pods))
	var telling sync.Mutex
	done := 0
	var all errgroup.Group
	all.SetLimit(8)
	for i, pod := range pods {
		all.Go(func() error {
			calls, err := d.callFrom(ctx, pod, to)
			out[i] = Asked{pod, calls, err}
			telling.Lock()
			defer telling.Unlock()
			done++
			d.Tell(fmt.Sprintf("calling: %d of %d pods have called the others", done, len(pods)))
			return nil
		})
	}
	_ = all.Wait() // out has the errors
	return out
}

func (d *Demo) callFrom(ctx context.Context, from Pod, to []netip.Addr) ([]Call, error) {
	const atOnce = 4
	transport := d.Transport(from, atOnce)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: time.Minute}
	to = slices.DeleteFunc(slices.Clone(to), func(a netip.Addr) bool { return a == from.Address })
	calls := make([]Call, len(to))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, a := range to {
		all.Go(func() (err error) {
			calls[i], err = ask(ctx, &client, a, callTime)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	return calls, nil
}

func ask(ctx context.Context, client *http.Client, to netip.Addr, within time.Duration) (c Call,
	err error) {
	target := "http://pod/call?" + url.Values{"to": {to.String()},
		"within": {within.String()}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return c, err
	}
	response, err := client.Do(r)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return c, fmt.Errorf("the program in the pod answers %s: is the image routekeeper's?",
			response.Status)
	}
	return c, json.NewDecoder(response.Body).Decode(&c)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
