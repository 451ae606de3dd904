package network

import (
	"fmt"
	"hash/fnv"
	"net/http"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// typeLinkConfiguration is the type of the IP configurations of an Application Gateway's private
// link.
const typeLinkConfiguration = arm.TypeGateway + "/privateLinkConfigurations/ipConfigurations"

const linkState = "privateLinkServiceConnectionState"

// approvedState returns the state of a private endpoint's connection that needs no approval:
// Application Gateways write it without the hyphen (recorded).
func approvedState(target arm.ID) kernel.Object {
	description := "Auto-Approved"
	if target.Is(arm.TypeGateway) {
		description = "Auto Approved"
	}
	return kernel.Object{"status": "Approved", "description": description,
		"actionsRequired": "None"}
}

// linkResources returns what private endpoints can connect to: the frontends with a private link.
func (s *gateways) linkResources(r *kernel.Resource) []kernel.Object {
	out := []kernel.Object{}
	for _, f := range kernel.ListAt(r.Properties(), "frontendIPConfigurations") {
		if name := kernel.Text(f, "name"); kernel.LinkOf(f, "privateLinkConfiguration") != "" {
			out = append(out, kernel.Object{"name": name,
				"id":   string(r.ID.Child("privateLinkResources", name)),
				"type": arm.TypeGateway + "/privateLinkResources",
				"properties": kernel.Object{"groupId": name, "requiredMembers": []any{name},
					"requiredZoneNames": []any{}}})
		}
	}
	return out
}

// linkConnection is a connection of a private endpoint to a gateway.
type linkConnection struct {
	endpoint   *kernel.Resource
	properties kernel.Object // in the endpoint's document
	doc        kernel.Object // as the gateway shows it
}

// linkConnections returns the private endpoints' connections to a gateway, except the ones that the
// gateway has removed.
func (s *gateways) linkConnections(r *kernel.Resource) []linkConnection {
	var out []linkConnection
	for _, e := range s.kernel.Store.List(TypePrivateEndpoint, "") {
		p := e.Properties()
		for _, c := range kernel.ListAt(p, "privateLinkServiceConnections") {
			of := kernel.ObjectAt(c, "properties")
			state := kernel.ObjectAt(of, linkState)
			if !arm.ID(kernel.Text(of, "privateLinkServiceId")).Equal(r.ID) ||
				kernel.Text(state, "status") == "Disconnected" {
				continue
			}
			if state == nil {
				state = approvedState(r.ID)
			}
			number := fnv.New32a()
			number.Write([]byte(e.ID.Key()))
			name := e.ID.Name() + "." + kernel.Text(p, "resourceGuid")
			out = append(out, linkConnection{e, of, kernel.Object{"name": name,
				"id":   string(r.ID.Child("privateEndpointConnections", name)),
				"type": arm.TypeGateway + "/privateEndpointConnections",
				"properties": kernel.Object{"provisioningState": kernel.State(r),
					"privateEndpoint": arm.Link(e.ID),
					linkState:         kernel.Clone(state),
					"linkIdentifier":  fmt.Sprint(number.Sum32())}}})
		}
	}
	return out
}

// links answers for the private links of an Application Gateway: it approves, rejects and removes
// the connections of private endpoints, and the endpoint's document follows.
func (s *gateways) links(c *kernel.Call, r *kernel.Resource,
	connections bool) (kernel.Reply, *kernel.Failure) {
	k := s.kernel
	all, docs := s.linkConnections(r), s.linkResources(r)
	if connections {
		docs = []kernel.Object{}
		for _, one := range all {
			docs = append(docs, one.doc)
		}
	}
	if len(c.Path) == 9 && c.Method == http.MethodGet {
		return k.PageObjects(c, docs)
	}
	at := kernel.IndexOf(docs, c.Path[len(c.Path)-1])
	child := r.ID.Child(c.Path[8], c.Path[len(c.Path)-1])
	reads := c.Method == http.MethodGet
	writes := connections && (c.Method == http.MethodPut || c.Method == http.MethodDelete)
	switch {
	case len(c.Path) != 10 || !reads && !writes:
		return kernel.Reply{}, kernel.NotFound(c)
	case at < 0 && c.Method == http.MethodDelete:
		return kernel.Reply{Status: http.StatusNoContent}, nil
	case at < 0:
		return kernel.Reply{}, k.Missing(child)
	case reads:
		return kernel.OK(docs[at]), nil
	}
	if f := k.Busy(r.ID); f != nil {
		return kernel.Reply{}, f
	}
	state, verb := kernel.Object{"status": "Disconnected"}, "delete"
	if c.Method != http.MethodDelete {
		sent, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return kernel.Reply{}, f
		}
		if state, verb = kernel.ObjectAt(sent, "properties", linkState), "write"; state == nil {
			return kernel.Reply{}, kernel.Unparsable("%s has no %s.", child, linkState)
		}
	}
	for _, text := range []string{"status", "description", "actionsRequired"} {
		kernel.SetDefault(state, text, "")
	}
	k.Remember(all[at].endpoint.ID)
	all[at].properties[linkState] = state
	k.Store.Changed(all[at].endpoint)
	k.Occupy(c, r, "Updating")
	k.Record(c, child, verb, nil)
	if verb == "delete" {
		return k.Accepted(c, nil), nil
	}
	return k.Started(c, r, kernel.OK(s.linkConnections(r)[at].doc)), nil
}
