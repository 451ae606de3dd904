package network

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Kubernetes is what a cluster's own API says. The structs hold what a diagnosis needs, and nothing else of nodes and pods: their
// environment and annotations can hold secrets. Nodes and pods can be known apart: Nil means not read.
type Kubernetes struct {
	Nodes []Node `json:"nodes"`
	Pods  []Pod  `json:"pods"`
	// Failed says why it could not be read, "" where it was, or was not tried.
	Failed string `json:"failed,omitempty"`
}

// Node is a node as Kubernetes knows it.
type Node struct {
	Name string `json:"name"`
	// PodCIDRs are its pods' prefixes: the cloud provider routes them to the node on kubenet.
	PodCIDRs  []netip.Prefix `json:"podCIDRs,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"` // InternalIP, the primary first
	// Pool is the node pool (label kubernetes.azure.com/agentpool).
	Pool string `json:"pool,omitempty"`
	// ProviderID names the machine: azure:///subscriptions/…/virtualMachineScaleSets/…/virtualMachines/0.
	ProviderID string    `json:"providerID,omitempty"`
	Ready      bool      `json:"ready"`
	Created    time.Time `json:"created,omitzero"`
	// NetworkUnavailable is the condition the cloud provider sets while a node has no route; nil where it is not there.
	NetworkUnavailable *Condition `json:"networkUnavailable,omitempty"`
}

// Condition is a condition of a node.
type Condition struct {
	True    bool      `json:"true"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Pod is a pod as Kubernetes knows it.
type Pod struct {
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	Node        string       `json:"node,omitempty"`
	HostNetwork bool         `json:"hostNetwork,omitempty"`
	Phase       string       `json:"phase,omitempty"`
	Addresses   []netip.Addr `json:"addresses,omitempty"`
}

// Ended reports whether a pod has no address any more: it has run to its end.
func (p Pod) Ended() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

type kubeMeta struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
	Created   time.Time         `json:"creationTimestamp"`
}

// DecodeNodes reads what `kubectl get nodes -o json` prints, or one page of the API's list, or one node. Nodes come back sorted by name.
func DecodeNodes(raw []byte) ([]Node, error) {
	nodes := []Node{}
	err := eachItem(raw, "Node", func(item []byte) error {
		n, err := decodeNode(item)
		nodes = append(nodes, n)
		return err
	})
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

func decodeNode(raw []byte) (Node, error) {
	var doc struct {
		Metadata kubeMeta `json:"metadata"`
		Spec     struct {
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
		return Node{}, describeJSON(raw, err)
	}
	n := Node{
		Name: doc.Metadata.Name, Created: doc.Metadata.Created, ProviderID: doc.Spec.ProviderID,
		PodCIDRs: parsePrefixes(doc.Spec.PodCIDRs, []string{doc.Spec.PodCIDR}),
		Pool:     doc.Metadata.Labels["kubernetes.azure.com/agentpool"],
	}
	if n.Pool == "" {
		n.Pool = doc.Metadata.Labels["agentpool"] // the older label
	}
	if n.Name == "" {
		return n, fmt.Errorf("metadata.name: it is missing")
	}
	for _, a := range doc.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == "InternalIP" {
			n.Addresses = append(n.Addresses, addr)
		}
	}
	for _, c := range doc.Status.Conditions {
		switch c.Type {
		case "Ready":
			n.Ready = c.Status == "True"
		case "NetworkUnavailable":
			n.NetworkUnavailable = &Condition{True: c.Status == "True", Reason: c.Reason, Message: c.Message, Since: c.Since}
		}
	}
	return n, nil
}

// DecodePods reads what `kubectl get pods -A -o json` prints, or one page of the API's list, or one pod. Pods come back sorted by
// namespace and name.
func DecodePods(raw []byte) ([]Pod, error) {
	pods := []Pod{}
	err := eachItem(raw, "Pod", func(item []byte) error {
		p, err := decodePod(item)
		pods = append(pods, p)
		return err
	})
	slices.SortFunc(pods, func(a, b Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return pods, err
}

func decodePod(raw []byte) (Pod, error) {
	type address struct {
		IP string `json:"ip"`
	}
	var doc struct {
		Metadata kubeMeta `json:"metadata"`
		Spec     struct {
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
		return Pod{}, describeJSON(raw, err)
	}
	p := Pod{Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name, Node: doc.Spec.NodeName, HostNetwork: doc.Spec.HostNetwork, Phase: doc.Status.Phase}
	if p.Name == "" {
		return p, fmt.Errorf("metadata.name: it is missing")
	}
	for _, a := range append(doc.Status.PodIPs, address{doc.Status.PodIP}) {
		if addr, err := netip.ParseAddr(a.IP); err == nil && !slices.Contains(p.Addresses, addr) {
			p.Addresses = append(p.Addresses, addr)
		}
	}
	return p, nil
}

// eachItem calls for each object of a list (kind List, or NodeList and PodList), or for the one object.
func eachItem(raw []byte, kind string, each func([]byte) error) error {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return describeJSON(raw, err)
	}
	switch list.Kind {
	case kind:
		return each(raw)
	case "List", kind + "List":
	default:
		return fmt.Errorf("kind: found %q, expected %sList, List or %s (kubectl get -o json)", list.Kind, kind, kind)
	}
	for i, item := range list.Items {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(item, &head); err != nil {
			return fmt.Errorf("items[%d]: %w", i, describeJSON(item, err))
		}
		if head.Kind != "" && head.Kind != kind { // the API's own lists leave it out
			return fmt.Errorf("items[%d]: found a %s, expected only objects of kind %s", i, head.Kind, kind)
		}
		if err := each(item); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}
