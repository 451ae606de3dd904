package azure

import (
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// guardTags has the tags that pause the guard of a network's subnets, as last read. A subnet that
// is read without its network gets its network's tag from here: one failed read of the network must
// not end the pause.
type guardTags struct {
	mu sync.Mutex
	of map[string]*string // by the network's ID.Key()
}

// note notes the tag of a network. The rest of the network's document may be impossible to decode.
func (g *guardTags) note(network arm.ID, raw []byte) {
	tag := inventory.GuardPauseIn(raw)
	g.mu.Lock()
	defer g.mu.Unlock()
	if tag == nil {
		delete(g.of, network.Key())
	} else {
		g.of[network.Key()] = tag
	}
}

// patience returns how long to wait before reading a network again after Azure refused to show it.
// The wait is short for a network that had the tag, because the tag may have been removed.
func (g *guardTags) patience(network arm.ID) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[network.Key()] != nil {
		return hungMemory
	}
	return listMemory
}

// decode decodes a subnet that was read by itself.
func (g *guardTags) decode(raw []byte) (*inventory.Subnet, error) {
	subnet, err := inventory.DecodeSubnet(raw)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	subnet.GuardPausedUntil = g.of[subnet.ID.Parent().Key()]
	return subnet, nil
}
