package build

import (
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// nodes claims that the nodes are there and Ready.
func (v *verifier) nodes() {
	const what = "nodes"
	wrong := v.wrong("", finding.NodeNotReady, finding.NodesDisagree, finding.NetworkUnavailable)
	pools := v.Cluster.Nodes()
	state := inventory.ProvisioningState(v.Cluster.Raw)
	ready := 0
	for _, n := range v.Nodes {
		if n.Ready {
			ready++
		}
	}
	switch why := v.kubernetes(false); {
	case why != "":
		v.unchecked(topicNodes, what, v.Cluster.ID, wrong, "%s", why)
	case state != "" && !strings.EqualFold(state, "Succeeded"):
		v.unchecked(topicNodes, what, v.Cluster.ID, wrong, "the provisioning state of the cluster is %s: verify it again when it has settled", state)
	case len(v.Nodes) != pools:
		v.unchecked(topicNodes, what, v.Cluster.ID, wrong, "%s in Kubernetes, and the pools count %d: verify it again when nodes have joined or left", quantity(len(v.Nodes), "node"), pools)
	case ready < len(v.Nodes):
		v.unchecked(topicNodes, what, v.Cluster.ID, wrong, "%d of %s are Ready: a node counts as not Ready after three minutes, and where Kubernetes says so", ready, quantity(pools, "node"))
	default:
		v.claim(topicNodes, what, v.Cluster.ID, ClaimRight, fmt.Sprintf("%s, as the pools count, all Ready", quantity(pools, "node")), wrong)
	}
}

// places claims that nodes and pods have their addresses where they should.
func (v *verifier) places() {
	if len(v.Places) == 0 {
		v.unchecked(topicPods, "addresses of nodes and pods", v.Cluster.ID, nil,
			"the cluster has a network plugin of its own (%s): where pods have addresses is not known", v.Cluster.PluginName())
	}
	for _, place := range v.Places {
		topic, codes := topicPods, []finding.Code{finding.PodOutside}
		if place.Kind == "node subnet" {
			topic, codes = topicNodeSubnet, []finding.Code{finding.NodeOutside, finding.PodOutside}
		}
		var wrong []finding.Finding
		for _, f := range v.wrong("", codes...) {
			// The subject names the place where something should be.
			if strings.Contains(f.Subject, called(place)) {
				wrong = append(wrong, f)
			}
		}
		if place.Subnet != "" {
			wrong = append(wrong, v.wrong(place.Subnet, finding.SubnetDelegated, finding.SubnetUsedTwice)...)
		}
		what := v.name(place)
		switch why := v.kubernetes(true); {
		case !place.Read:
			v.unchecked(topic, what, place.Subnet, wrong, "the subnet was not read: %s", unreadReason(v.s, place.Subnet))
		case why != "":
			v.unchecked(topic, what, place.Subnet, wrong, "%s", why)
		case place.Outside > 0:
			v.claim(topic, what, place.Subnet, ClaimWrong, fmt.Sprintf("%s; %d elsewhere", inside(place), place.Outside), wrong)
		default:
			v.claim(topic, what, place.Subnet, ClaimRight, inside(place)+"; none elsewhere"+v.unjudged(topic), wrong)
		}
	}
}

// called is how findings call a place.
func called(p diagnose.Place) string {
	if p.Subnet == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Subnet.Short() + " ("
}

// name is a place in a claim: node subnet 10.243.0.0/16 (shop-vnet/nodes).
func (v *verifier) name(p diagnose.Place) string {
	name := p.Kind
	if len(p.Prefixes) > 0 {
		name += " " + prefixes(p.Prefixes)
	}
	if p.Subnet != "" {
		name += " (" + p.Subnet.Short() + ")"
	}
	return name
}

func prefixes(list []netip.Prefix) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// inside says what is in a place: 3 nodes and 12 host-network pods (azure-cns, kube-proxy).
func inside(p diagnose.Place) string {
	var words []string
	if p.Kind == "node subnet" {
		host := quantity(p.Host, "host-network pod")
		if len(p.Agents) > 0 {
			const most = 6
			names := p.Agents[:min(most, len(p.Agents))]
			host += " (" + strings.Join(names, ", ")
			if more := len(p.Agents) - most; more > 0 {
				host += fmt.Sprintf(" and %d more", more)
			}
			host += ")"
		}
		words = append(words, quantity(p.Nodes, "node"), host)
	}
	if p.Kind != "node subnet" || p.Pods > 0 {
		pods := quantity(p.Pods, "pod")
		if p.Kind == "pod CIDR" && p.Pods > 0 {
			pods += " in the pod CIDRs of their nodes"
		}
		words = append(words, pods)
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return words[0]
}

// unjudged says what a count of pods leaves out.
func (v *verifier) unjudged(topic string) string {
	text := ""
	if topic != topicPods && v.Astray == 0 {
		return ""
	}
	if v.Waiting > 0 && topic == topicPods {
		text += fmt.Sprintf("; %s without an address yet", quantity(v.Waiting, "pod"))
	}
	if v.Astray > 0 {
		text += fmt.Sprintf("; %d of no node pool are not judged", v.Astray)
	}
	return text
}

// addresses claims that each subnet has addresses left.
func (v *verifier) addresses() {
	seen := map[string]bool{}
	for _, place := range v.Places {
		if !place.Read || place.Subnet == "" || seen[place.Subnet.Key()] || place.Usable == 0 {
			continue
		}
		seen[place.Subnet.Key()] = true
		left := max(0, place.Usable-place.Used)
		state := ClaimRight
		if left == 0 {
			state = ClaimWrong
		}
		detail := fmt.Sprintf("%d of %d are left", left, place.Usable)
		if place.Kind == "pod subnet" {
			// Whether Azure shows all that nodes hold there is not documented.
			detail = fmt.Sprintf("at most %s: nodes hold 16 at a time", detail)
		}
		v.claim(topicAddresses, "addresses of "+place.Subnet.Short(), place.Subnet, state, detail,
			v.wrong(place.Subnet, finding.AddressesNearly, finding.AddressesExhausted, finding.SurgeShort))
	}
}

// room claims that each pool can be upgraded, and grow as far as its autoscaler goes.
func (v *verifier) room() {
	const what = "room for more nodes"
	limit := v.limit
	if limit == 0 {
		limit = inventory.DefaultRouteLimit
	}
	wrong := v.wrong("", finding.AddressesShort, finding.TableFull, finding.TableFilling)
	pools, unseen, err := diagnose.Pools(v.s, v.Cluster, capacity.SurgeOf(""), limit)
	switch {
	case err != nil:
		v.unchecked(topicRoom, what, v.Cluster.ID, wrong, "%s", err)
		return
	case len(unseen) > 0:
		v.unchecked(topicRoom, what, v.Cluster.ID, wrong, "%s", unseen[0])
		return
	}
	state := ClaimRight
	var words []string
	for _, g := range capacity.Grow(pools) {
		words = append(words, fmt.Sprintf("pool %s has %s and holds %d with the surge of an upgrade (limited by %s)", g.Pool, quantity(g.Nodes, "node"), g.Most, g.LimitedBy))
		if g.Most < g.Nodes || g.Most < g.Autoscaler {
			state = ClaimWrong
		}
	}
	v.claim(topicRoom, what, v.Cluster.ID, state, strings.Join(words, "; "), wrong)
}
