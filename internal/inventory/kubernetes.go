package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Kubernetes is the content of a cluster's API. The structs have only the fields that a diagnosis
// needs, because environment and annotations of pods and nodes can contain secrets. Nodes and Pods
// are independent: nil means not read.
type Kubernetes struct {
	Nodes []Node `json:"nodes"`
	Pods  []Pod  `json:"pods"`
	// Failed says why the API could not be read, or "". Since is when the API last answered, or
	// zero if it never has. NoLogin is set if the program that logs in is not installed.
	Failed  string    `json:"failed,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	NoLogin bool      `json:"noLogin,omitempty"`
	// Followed is set if a watch shows the nodes: changes of the last seconds may be missing.
	Followed bool `json:"-"`
	// Note says which part could not be read, such as the pods if the API shows only nodes.
	Note string `json:"note,omitempty"`
}

// Node is a node as the Kubernetes API shows it.
type Node struct {
	Name string `json:"name"`
	// PodCIDRs are the prefixes of its pods. On kubenet the cloud provider routes them to the node.
	PodCIDRs  []netip.Prefix `json:"podCIDRs,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"` // InternalIP, the primary first
	// Pool is the node pool (label kubernetes.azure.com/agentpool).
	Pool string `json:"pool,omitempty"`
	// ProviderID identifies the machine:
	// azure:///subscriptions/…/virtualMachineScaleSets/…/virtualMachines/0.
	ProviderID string `json:"providerID,omitempty"`
	Ready      bool   `json:"ready"`
	// ReadySince is when the node became Ready.
	ReadySince time.Time `json:"readySince,omitzero"`
	// Overlay is set if the node's pods are in an overlay network (label
	// kubernetes.azure.com/podnetwork-type).
	Overlay bool `json:"overlay,omitempty"`
	// Unready is the condition Ready if it is set and not True.
	Unready *Condition `json:"unready,omitempty"`
	Created time.Time  `json:"created,omitzero"`
	// NetworkUnavailable is the condition that the cloud provider sets while a node has no route,
	// or nil.
	NetworkUnavailable *Condition `json:"networkUnavailable,omitempty"`
}

// Machine returns the ID of the node's virtual machine or scale set instance; "" if unknown.
func (n Node) Machine() arm.ID {
	id, err := arm.ParseID(strings.TrimPrefix(n.ProviderID, "azure://"))
	if err != nil || !strings.HasPrefix(n.ProviderID, "azure:///") {
		return ""
	}
	return id
}

// Compare orders nodes by name.
func (n Node) Compare(other Node) int { return strings.Compare(n.Name, other.Name) }

// Condition is a condition of a node.
type Condition struct {
	True    bool      `json:"true"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Pod is a pod as the Kubernetes API shows it.
type Pod struct {
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	Node        string       `json:"node,omitempty"`
	HostNetwork bool         `json:"hostNetwork,omitempty"`
	Phase       string       `json:"phase,omitempty"`
	Addresses   []netip.Addr `json:"addresses,omitempty"`
}

// Ended reports whether a pod has finished and no longer has an address.
func (p Pod) Ended() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

// Compare orders pods by namespace and name.
func (p Pod) Compare(other Pod) int {
	return cmp.Or(strings.Compare(p.Namespace, other.Namespace),
		strings.Compare(p.Name, other.Name))
}

// SavedNodes decodes a file with the output of `kubectl get nodes -o json`. Errors name the file
// and the expected content.
func SavedNodes(file string, raw []byte) ([]Node, error) {
	return saved(file, "kubectl get nodes -o json", raw, DecodeNodes)
}

// SavedPods works like SavedNodes for `kubectl get pods -A -o json`.
func SavedPods(file string, raw []byte) ([]Pod, error) {
	return saved(file, "kubectl get pods -A -o json", raw, DecodePods)
}

func saved[T any](file, command string, raw []byte, decode func([]byte) ([]T, error)) ([]T, error) {
	all, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (expected the output of: %s)", file, err, command)
	}
	return all, nil
}

// kubeObject is the common part of Kubernetes objects. In the API's own lists the objects omit
// their kind.
type kubeObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string            `json:"namespace"`
		Name      string            `json:"name"`
		Labels    map[string]string `json:"labels"`
		Created   time.Time         `json:"creationTimestamp"`
	} `json:"metadata"`
}

func (o kubeObject) check(kind string) error {
	switch {
	case o.Kind != "" && o.Kind != kind:
		return fmt.Errorf("found a %s, expected only objects of kind %s", o.Kind, kind)
	case o.Metadata.Name == "":
		return fmt.Errorf("metadata.name is missing")
	case !kubeName(o.Metadata.Name):
		return fmt.Errorf("metadata.name: no %s can have the name %.80q", kind, o.Metadata.Name)
	case o.Metadata.Namespace != "" && !kubeName(o.Metadata.Namespace):
		return fmt.Errorf("metadata.namespace: none can have the name %.80q", o.Metadata.Namespace)
	}
	return nil
}

// kubeName reports whether an API server accepts a name for nodes, pods or namespaces: it must be a
// DNS subdomain. Names of nodes become names of routes, and Azure refuses a whole table for one
// invalid name.
func kubeName(name string) bool {
	const longest = 253
	return len(name) <= longest && subdomain().MatchString(name)
}

var subdomain = lazy.Regexp(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// DecodeNodes reads the output of `kubectl get nodes -o json`, one page of the API's list, or one
// node. It sorts the nodes by name.
func DecodeNodes(raw []byte) ([]Node, error) {
	return decodeItems(raw, "Node", decodeNode, Node.Compare)
}

func decodeNode(raw []byte) (Node, error) {
	var doc struct {
		kubeObject
		Spec struct {
			PodCIDR    string   `json:"podCIDR"`
			PodCIDRs   []string `json:"podCIDRs"`
			ProviderID string   `json:"providerID"`
		} `json:"spec"`
		Status struct {
			Addresses []struct {
				Type    string `json:"type"`
				Address string `json:"address"`
			} `json:"addresses"`
			Conditions []struct {
				Type    string    `json:"type"`
				Status  string    `json:"status"`
				Reason  string    `json:"reason"`
				Message string    `json:"message"`
				Since   time.Time `json:"lastTransitionTime"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Node{}, arm.DescribeJSON(raw, err)
	}
	n := Node{
		Name: doc.Metadata.Name, Created: doc.Metadata.Created, ProviderID: doc.Spec.ProviderID,
		PodCIDRs: arm.ParsePrefixes(doc.Spec.PodCIDRs, []string{doc.Spec.PodCIDR}),
		Pool:     doc.Metadata.Labels["kubernetes.azure.com/agentpool"],
		Overlay:  doc.Metadata.Labels["kubernetes.azure.com/podnetwork-type"] == "overlay",
	}
	if n.Pool == "" {
		n.Pool = doc.Metadata.Labels["agentpool"] // the older label
	}
	for _, a := range doc.Status.Addresses {
		if a.Type == "InternalIP" {
			n.Addresses = addAddress(n.Addresses, a.Address)
		}
	}
	for _, c := range doc.Status.Conditions {
		switch c.Type {
		case "Ready":
			if n.Ready = c.Status == "True"; n.Ready {
				n.ReadySince = c.Since
			} else {
				n.Unready = &Condition{Reason: c.Reason, Message: c.Message, Since: c.Since}
			}
		case "NetworkUnavailable":
			n.NetworkUnavailable = &Condition{True: c.Status == "True", Reason: c.Reason,
				Message: c.Message, Since: c.Since}
		}
	}
	return n, doc.check("Node")
}

// DecodePods reads the output of `kubectl get pods -A -o json`, one page of the API's list, or one
// pod. It sorts the pods by namespace and name.
func DecodePods(raw []byte) ([]Pod, error) {
	return decodeItems(raw, "Pod", decodePod, Pod.Compare)
}

func decodePod(raw []byte) (Pod, error) {
	type address struct {
		IP string `json:"ip"`
	}
	var doc struct {
		kubeObject
		Spec struct {
			NodeName    string `json:"nodeName"`
			HostNetwork bool   `json:"hostNetwork"`
		} `json:"spec"`
		Status struct {
			Phase  string    `json:"phase"`
			PodIP  string    `json:"podIP"`
			PodIPs []address `json:"podIPs"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Pod{}, arm.DescribeJSON(raw, err)
	}
	p := Pod{Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name, Node: doc.Spec.NodeName,
		HostNetwork: doc.Spec.HostNetwork, Phase: doc.Status.Phase}
	for _, a := range append(doc.Status.PodIPs, address{doc.Status.PodIP}) {
		p.Addresses = addAddress(p.Addresses, a.IP)
	}
	return p, doc.check("Pod")
}

// addAddress adds a valid address, once.
func addAddress(to []netip.Addr, text string) []netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || slices.Contains(to, addr.Unmap()) {
		return to
	}
	return append(to, addr.Unmap())
}

// decodeItems decodes each object in a list (kind List, or NodeList and PodList), or a single
// object, and sorts them. If one object cannot be decoded, the whole list is an error: otherwise
// its node would seem to be gone.
func decodeItems[T any](raw []byte, kind string, decode func([]byte) (T, error),
	compare func(T, T) int) ([]T, error) {
	raw, err := arm.Text(raw)
	if err != nil {
		return nil, err
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, arm.DescribeJSON(raw, err)
	}
	switch list.Kind {
	case kind:
		list.Items = []json.RawMessage{raw}
	case "List", kind + "List":
	default:
		return nil, fmt.Errorf("kind: found %q, expected %sList, List or %s", list.Kind, kind, kind)
	}
	all := make([]T, 0, len(list.Items))
	for i, item := range list.Items {
		one, err := decode(item)
		if err != nil {
			var of kubeObject
			_ = json.Unmarshal(item, &of) // its name, if it has one
			return nil, fmt.Errorf("items[%d] %.80q: %w", i, of.Metadata.Name, err)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, compare)
	return all, nil
}
