package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
)

// How it works. A node subnet with few nodes shows each of them. A node subnet with more shows a
// block for each pool. Each block has a line for each table that says how many of the pool's routes
// work, and below it the nodes that differ from the rest of their pool.

// spot is a node in the drawing: the destination of its pod routes, and the route of each table.
type spot struct {
	row
	hop string
}

// pool is the nodes of a pool in the drawing.
type pool struct {
	Name  string
	Nodes int
	Cells []poolCell // by table
}

// poolCell sums up a pool's routes in one table.
type poolCell struct {
	Works, All int
	State      string // the worst
}

// crowd is what the drawing shows in a node subnet.
type crowd struct {
	pools  []pool // none: every node is shown
	spots  []spot
	beyond hidden
}

// singledOut is how many broken nodes are drawn next to their pools.
const singledOut = 8

// crowds returns what to draw in each node subnet: at most the given number of nodes in each, one
// by one.
func crowds(c Cluster, most int) map[string]crowd {
	nodes := map[string][]spot{}
	for _, r := range compare(c.Cluster.Tables, 0).Rows {
		s := spot{row: r}
		for _, cell := range r.Cells {
			if s.hop == "" {
				s.hop = cell.NextHop
			}
			if cell.Wanted != "" {
				s.hop = cell.Wanted
			}
		}
		key := c.subnetOf(s.hop)
		nodes[key] = append(nodes[key], s)
	}
	of := map[string]crowd{}
	for key, spots := range nodes {
		if len(spots) > most {
			of[key] = crowded(spots)
			continue
		}
		slices.SortStableFunc(spots, func(a, b spot) int {
			return plan.CompareDestinations(a.Destination, b.Destination)
		})
		of[key] = crowd{spots: spots}
	}
	return of
}

// crowded sums up nodes by pool, and singles out the broken ones of pools where others work.
func crowded(nodes []spot) (out crowd) {
	at := map[string]int{}
	broken := map[string][]spot{}
	for _, s := range nodes {
		name := poolOf(s.Node)
		i, there := at[name]
		if !there {
			i = len(out.pools)
			at[name] = i
			out.pools = append(out.pools, pool{Name: name, Cells: make([]poolCell, len(s.Cells))})
		}
		p := &out.pools[i]
		p.Nodes++
		for j, cell := range s.Cells {
			p.Cells[j].add(cell.State)
		}
		if s.broken() {
			broken[name] = append(broken[name], s)
		}
	}
	slices.SortFunc(out.pools, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range out.pools {
		if len(broken[p.Name]) == p.Nodes {
			continue
		}
		for _, s := range broken[p.Name] {
			if len(out.spots) < singledOut {
				out.spots = append(out.spots, s)
			} else {
				out.beyond.add(s.row)
			}
		}
	}
	return out
}

func (c *poolCell) add(state string) {
	if state == none || state == unread {
		return
	}
	c.All++
	if state == picture.Works {
		c.Works++
	}
	if slices.Index(routeStates, state) > slices.Index(routeStates, c.State) {
		c.State = state
	}
}

// poolOf returns the pool in a node's name: aks-pool1-12345678-vmss000002 and akspool1000002 are of
// pool1. A name of another form is no node of a pool.
func poolOf(node string) string {
	parts := strings.Split(node, "-")
	switch windows, is := strings.CutPrefix(node, "aks"); {
	case len(parts) > 2:
		return parts[1]
	case len(parts) == 1 && is && len(windows) > 6:
		return windows[:len(windows)-6]
	}
	return "other nodes"
}

// subnetOf returns the node subnet that holds an address, else the first one, or "" if there is
// none.
func (c Cluster) subnetOf(hop string) string {
	address, _ := netip.ParseAddr(hop)
	first := ""
	for _, s := range c.Subnets {
		if s.Role != picture.RoleNodes {
			continue
		}
		first = cmp.Or(first, s.ID.Key())
		if slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool {
			return p.Contains(address)
		}) {
			return s.ID.Key()
		}
	}
	return first
}

// nodes draws the node subnets with their nodes, indented by a given distance. It calls route with
// each route of a table, its state, its effect and its position, and subnet with the position of
// each subnet.
func (d *drawing) nodes(c Cluster, most, x, y, w, indent int,
	route func(table int, state, title string, y int), subnet func(picture.Subnet, int)) int {
	of := crowds(c, most)
	for _, s := range c.Subnets {
		if s.Role != picture.RoleNodes {
			continue
		}
		in := of[s.ID.Key()]
		h := headHeight(s) + in.height()
		d.Boxes = append(d.Boxes, box{x, y, w, h, "subnet nodes " + worstOf(s), string(s.ID)})
		d.text(x+margin, y+24, w-2*margin, s.ID.Name(), "name")
		d.text(x+margin, y+41, w-2*margin, joined("node subnet", s.Prefixes), "dim")
		if text := associated(s); text != "" {
			d.text(x+margin, y+57, w-2*margin, text, "state "+s.State)
		}
		for i, p := range s.Properties {
			d.text(x+margin, y+headHeight(s)-9-16*(len(s.Properties)-1-i), w-2*margin,
				describeProperty(p), "state "+p.State)
		}
		subnet(s, y+22)
		rowY := y + headHeight(s)
		for _, p := range in.pools {
			rowY += d.pool(c, p, x+10+indent, rowY, w-20-indent, route)
		}
		for _, r := range in.spots {
			middle := rowY + rowHeight/2 - 2
			d.spot(r, x+10+indent, rowY, w-20-indent)
			for i, cell := range r.Cells {
				if cell.State != none && cell.State != unread {
					route(i, cell.State, r.Destination+" "+describe(cell), middle)
				}
			}
			rowY += rowHeight
		}
		if in.beyond.Rows > 0 {
			d.text(x+22, rowY+16, w-40, in.beyond.String(), "dim")
		}
		y += h + gap
	}
	return y
}

// spot draws a node.
func (d *drawing) spot(r spot, x, y, w int) {
	middle := y + rowHeight/2 - 2
	d.Boxes = append(d.Boxes, box{x, y, w, rowHeight - 4, "node " + r.State, r.Node})
	const name, address = 90, 100
	d.text(x+12, middle+4, name, shortNode(r.Node), "node-name")
	room := w - 20 - name
	// A narrow drawing has no room for the address. Neither has a row with a long destination.
	if d.Width == wideWidth && room >= address+width(r.Destination, "pods") {
		d.text(x+12+name, middle+4, address, r.hop, "address")
		room -= address
	}
	d.right(x+w-8, middle+4, room, r.Destination, "pods")
}

// poolLine is the height of one table's line in a pool's block.
const poolLine = 19

// pool draws the block of a pool, and returns its height with the gap below.
func (d *drawing) pool(c Cluster, p pool, x, y, w int,
	route func(table int, state, title string, y int)) int {
	worst := none
	for _, cell := range p.Cells {
		if slices.Index(routeStates, cell.State) > slices.Index(routeStates, worst) {
			worst = cell.State
		}
	}
	d.Boxes = append(d.Boxes, box{x, y, w, p.height() - 6, "node " + worst, ""})
	d.text(x+12, y+18, w-20, p.Name+": "+finding.Count(p.Nodes, "node"), "pool")
	line := y + 18
	for i, cell := range p.Cells {
		if cell.All == 0 {
			continue
		}
		line += poolLine
		state, text := "right", fmt.Sprintf("%d of %d", cell.Works, cell.All)
		switch cell.State {
		case picture.Works:
		case picture.Kept, picture.Leftover:
			state, text = "kept", finding.Count(cell.All, "route")+" kept"
		case picture.Unknown:
			state, text = "unknown", text+", the rest not known"
		default:
			state, text = "bad", text+" work"
		}
		d.text(x+12, line, w/2, text, "state "+state)
		d.right(x+w-8, line, w/2-20, c.Cluster.Tables[i].ID.Name(), "dim")
		route(i, cell.State+" many", text+" pod routes to "+p.Name, line-4)
	}
	return p.height()
}

func (p pool) height() int {
	h := 34
	for _, cell := range p.Cells {
		if cell.All > 0 {
			h += poolLine
		}
	}
	return h
}

// headHeight returns the height of the part above the nodes in a node subnet.
func headHeight(s picture.Subnet) int {
	lines := len(s.Properties)
	if associated(s) != "" {
		lines++
	}
	return 50 + 16*lines
}

// height returns the height of the nodes in a node subnet.
func (c crowd) height() int {
	h := 4 + rowHeight*len(c.spots)
	for _, p := range c.pools {
		h += p.height()
	}
	if c.beyond.Rows > 0 {
		h += rowHeight
	}
	return h
}

// nodesHeight returns the height of all node subnets.
func nodesHeight(c Cluster, most int) int {
	of := crowds(c, most)
	h := -gap
	for _, s := range c.Subnets {
		if s.Role == picture.RoleNodes {
			h += headHeight(s) + of[s.ID.Key()].height() + gap
		}
	}
	return h
}

// shortNode returns the part of a name that differs between the nodes of a cluster: pool and
// number. aks-pool1-12345678-vmss000002 becomes "pool1 2".
func shortNode(node string) string {
	parts := strings.Split(node, "-")
	if len(parts) < 2 {
		return node
	}
	last := parts[len(parts)-1]
	if number, of := strings.CutPrefix(last, "vmss"); of {
		number = strings.TrimLeft(number[:max(len(number)-1, 0)], "0") +
			number[max(len(number)-1, 0):]
		if len(parts) > 2 {
			return parts[1] + " " + number
		}
	}
	return last
}
