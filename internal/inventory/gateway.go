package inventory

import (
	"cmp"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Gateway is an Application Gateway.
type Gateway struct {
	arm.Document
	Subnets []arm.ID
	// Isolated is set if the gateway says that it is deployed with network isolation. Its subnet is
	// then delegated to Application Gateways as well (application-gateway-private-deployment).
	Isolated bool
	// Operational is the gateway's state: Running, Stopped.
	Operational string
	// Tier is the SKU's tier, such as Standard_v2 or WAF_v2, or "" if the document does not say.
	Tier string
}

// DecodeGateway reads an Application Gateway.
func DecodeGateway(raw []byte) (*Gateway, error) {
	var p struct {
		State          string `json:"operationalState"`
		SKU            struct{ Name, Tier string }
		Isolation      bool `json:"enableApplicationGatewayNetworkIsolation"`
		Configurations []struct {
			Properties struct {
				Subnet *arm.Ref `json:"subnet"`
			} `json:"properties"`
		} `json:"gatewayIPConfigurations"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeGateway)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Document: document,
		Operational: p.State, Isolated: p.Isolation, Tier: cmp.Or(p.SKU.Tier, p.SKU.Name)}
	for _, c := range p.Configurations {
		if id := c.Properties.Subnet.Target(); id != "" {
			g.Subnets = append(g.Subnets, id)
		}
	}
	return g, nil
}

// Lock is a management lock.
type Lock struct {
	arm.Document
	// Scope is the locked resource or scope, including everything in it.
	Scope    arm.ID
	ReadOnly bool // false: it only forbids deletes
	Notes    string
}

// DecodeLock reads a management lock.
func DecodeLock(raw []byte) (*Lock, error) {
	var p struct {
		Level string `json:"level"`
		Notes string `json:"notes"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeLock)
	if err != nil {
		return nil, err
	}
	return &Lock{Document: document, Scope: document.ID.Parent(),
		ReadOnly: strings.EqualFold(p.Level, "ReadOnly"), Notes: p.Notes}, nil
}

// AppliesTo reports whether a lock applies to a resource: it is at the resource's scope or above.
func (l *Lock) AppliesTo(id arm.ID) bool {
	return l.Scope.Equal(id) || strings.HasPrefix(id.Key(), l.Scope.Key()+"/")
}
