package page

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
)

// draw lays out a cluster. On its own page (whole) it shows all rows, and draws more nodes one by
// one.
func draw(c Cluster, whole bool) drawn {
	nodes, rows := 12, 8
	if whole {
		rows, nodes = 0, 2*nodes
	}
	d := drawn{Cluster: c, Tables: compare(c.tables(), rows)}
	c.Cluster.Tables = c.tables()
	c.Cluster.Tables = append(slices.Clip(c.Cluster.Tables), c.others()...)
	d.Wide, d.Narrow = wide(c, nodes), narrow(c, nodes)
	return d
}

// The measures of a drawing, in pixels.
const (
	wideWidth, narrowWidth = 984, 360
	gap, margin            = 18, 14
	rowHeight, tableHeight = 26, 70
)

// wide draws three columns: the subnets that need to reach pods, the route tables, and the nodes.
func wide(c Cluster, most int) drawing {
	d := drawing{Width: wideWidth, Label: label(c)}
	const subnetX, subnetW, tableX, tableW, nodeX = 28, 216, 330, 214, 616
	const nodeW = wideWidth - 28 - nodeX
	const top = 46
	tableY := d.tables(c, tableX, top+max(0, (nodesHeight(c, most)-tablesHeight(c))/2), tableW)
	nodesEnd := d.nodes(c, most, nodeX, top, nodeW, 0, func(i int, state, title string, y int) {
		d.line(tableX+tableW, tableY.mid(i), nodeX+10, y, "route "+state,
			c.Cluster.Tables[i].ID.Name()+": "+title)
	}, func(s picture.Subnet, y int) {
		if i := c.table(s); i >= 0 {
			d.association(s, tableX+tableW, tableY.at[i]+14, nodeX, y)
		}
		if i := c.at(s.Table); i >= 0 && s.State == picture.Other {
			d.line(tableX+tableW, tableY.at[i]+14, nodeX, y+8, "association has", associated(s))
		}
	})
	y := top
	for _, s := range c.Subnets {
		if s.Role == picture.RoleNodes {
			continue
		}
		if i := c.table(s); i >= 0 { // next to its table, if there is room
			y = max(y, tableY.mid(i)-subnetHeight(s)/2)
		}
		h := d.subnet(s, subnetX, y, subnetW)
		if i := c.table(s); i >= 0 {
			d.association(s, subnetX+subnetW, y+h/2, tableX, tableY.mid(i))
		}
		if i := c.at(s.Table); i >= 0 && s.State == picture.Other {
			d.line(subnetX+subnetW, y+h/2+8, tableX, tableY.mid(i), "association has",
				associated(s))
		}
		y += h + gap
	}
	d.Height = max(tableY.end, nodesEnd, y) - gap + 30
	d.columns(28)
	d.frames(c, subnetX, nodeX, subnetW, nodeW)
	return d
}

// association draws the line between a subnet and the table that it should have.
func (d *drawing) association(s picture.Subnet, x1, y1, x2, y2 int) {
	d.line(x1, y1, x2, y2, "association "+s.State, associated(s))
	if s.State == picture.Lost || s.State == picture.Other {
		d.cross((x1+x2)/2, (y1+y2)/2)
	}
}

// columns makes the drawing as wide as the boxes in it, with an edge on both sides.
func (d *drawing) columns(edge int) {
	left, right := d.Width, 0
	for _, b := range d.Boxes {
		left, right = min(left, b.X), max(right, b.X+b.W)
	}
	if left < right {
		d.Left, d.Width = left-edge, right-left+2*edge
	}
}

// frames draws the virtual networks. It draws one frame around everything if there is only one
// network, or only one column.
func (d *drawing) frames(c Cluster, leftX, rightX, leftW, rightW int) {
	var left, right []arm.ID
	for _, s := range c.Subnets {
		if s.Role == picture.RoleNodes {
			right = append(right, s.ID.Parent())
		} else {
			left = append(left, s.ID.Parent())
		}
	}
	left, right = inventory.SortIDs(left), inventory.SortIDs(right)
	frame := func(ids []arm.ID, x, w int) {
		if len(ids) == 0 {
			return
		}
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = id.Name()
		}
		d.Boxes = slices.Insert(d.Boxes, 0, box{x, 8, w, d.Height - 16, "vnet", ""})
		what := "virtual network "
		if len(names) > 1 {
			what = "virtual networks "
		}
		d.text(x+14, 30, w-28, what+strings.Join(names, ", "), "vnet-name")
	}
	if all := inventory.SortIDs(slices.Concat(left, right)); len(all) == 1 || leftX == rightX {
		frame(all, d.Left+8, d.Width-16)
		return
	}
	frame(left, leftX-margin, leftW+2*margin)
	frame(right, rightX-margin, rightW+2*margin)
}

// placed are the positions of the tables, which are drawn one below the other.
type placed struct {
	at, height []int
	end        int
}

func (p placed) mid(i int) int { return p.at[i] + p.height[i]/2 }

// tables draws all route tables below each other.
func (d *drawing) tables(c Cluster, x, y, w int) placed {
	var p placed
	for _, t := range c.Cluster.Tables {
		h := d.table(c, t, x, y, w)
		p.at, p.height = append(p.at, y), append(p.height, h)
		y += h + gap
	}
	p.end = y
	return p
}

func (d *drawing) table(c Cluster, t picture.Table, x, y, w int) int {
	n := t.Counts()
	pods := len(t.Routes) - n[picture.Unmanaged] - n[picture.Leftover] - n[picture.Kept]
	class, text := "right", finding.Count(pods, "pod route")+", all working"
	switch bad := pods - n[picture.Works] - n[picture.Unknown]; {
	case t.Role == roleOther:
		class, text = "other", "on a subnet of the cluster"
	case t.Unread != "":
		class, text = "unknown", "not read: "+t.Unread
	case bad > 0:
		class, text = "bad", fmt.Sprintf("%d of %s broken", bad, finding.Count(pods, "pod route"))
	case t.Role == picture.RoleCluster && c.Unrouted():
		class, text = "bad", "no pod routes to "+finding.Count(c.Nodes, "node")
	case pods == 0 && n[picture.Kept] > 0:
		class, text = "unknown", finding.Count(n[picture.Kept], "pod route")+" kept"
	case pods == 0 && c.Unread != "":
		class, text = "unknown", "pod routes not known"
	case pods == 0:
		class, text = "unknown", "no pod routes"
	case n[picture.Unknown] > 0:
		class, text = "unknown", finding.Count(pods, "pod route")+", not known"
	case t.Idle:
		class, text = "unknown", finding.Count(pods, "pod route")+", on no subnet"
	}
	kind := "route table · target"
	if t.Role == picture.RoleCluster {
		kind = "the cluster's route table"
	} else if t.Role == roleOther {
		kind = "another route table"
	}
	const h = tableHeight
	d.Boxes = append(d.Boxes, box{x, y, w, h, "table " + class, string(t.ID)})
	d.text(x+margin, y+24, w-2*margin, t.ID.Name(), "name")
	d.text(x+margin, y+41, w-2*margin, kind, "dim")
	d.text(x+margin, y+58, w-2*margin, text, "state "+class)
	return h
}

// subnet draws a subnet without nodes, and returns its height.
func (d *drawing) subnet(s picture.Subnet, x, y, w int) int {
	lines, h := subnetLines(s), subnetHeight(s)
	d.Boxes = append(d.Boxes, box{x, y, w, h, "subnet " + worstOf(s), string(s.ID)})
	for i, l := range lines {
		d.text(x+margin, y+24+17*i, w-2*margin, l.Text, l.Class)
	}
	return h
}

func subnetHeight(s picture.Subnet) int { return 17*len(subnetLines(s)) + 18 }

// subnetLines returns the text in the box of a subnet without nodes.
func subnetLines(s picture.Subnet) []words {
	lines := []words{{Text: s.ID.Name(), Class: "name"},
		{Text: joined("subnet", s.Prefixes), Class: "dim"}}
	for _, g := range s.Gateways {
		lines = append(lines, words{Text: "Application Gateway", Class: "dim"},
			words{Text: g.Name(), Class: "gateway"})
	}
	if text := associated(s); text != "" {
		lines = append(lines, words{Text: text, Class: "state " + s.State})
	}
	for _, p := range s.Properties {
		lines = append(lines, words{Text: describeProperty(p), Class: "state " + p.State})
	}
	return lines
}

// associated says which table a subnet has, and which it should have.
func associated(s picture.Subnet) string {
	text := has("", picture.Property{Value: s.Table, Wanted: s.Wanted, State: s.State})
	switch {
	case text != "":
		return text
	case s.Unread != "":
		return "not read: " + s.Unread
	case s.Table != "":
		return "has " + s.Table.Name()
	}
	return ""
}

// describeProperty works like associated for a NAT gateway or a group.
func describeProperty(p picture.Property) string { return has(p.Property.Name()+" ", p) }

// has says which one of a kind a subnet has, and which it should have; "" if that is unknown.
func has(kind string, p picture.Property) string {
	switch p.State {
	case picture.Lost:
		return "lost " + kind + p.Wanted.Name()
	case picture.Other:
		return "has " + kind + p.Value.Name() + ", not " + p.Wanted.Name()
	case picture.Right:
		return "has " + kind + p.Value.Name()
	}
	return ""
}

// worstOf returns the worst state among the things that a subnet must have.
func worstOf(s picture.Subnet) string {
	for _, state := range []string{picture.Lost, picture.Other} {
		if slices.ContainsFunc(s.Required(), func(p picture.Property) bool {
			return p.State == state
		}) {
			return state
		}
	}
	return s.State
}

func tablesHeight(c Cluster) int { return len(c.Cluster.Tables)*(tableHeight+gap) - gap }

// narrow draws everything below each other, for a phone. A dot in a node's row stands for the route
// of one table.
func narrow(c Cluster, most int) drawing {
	d := drawing{Width: narrowWidth, Label: label(c)}
	const x, w = 22, narrowWidth - 44
	y := 44
	shown := make([]bool, len(c.Cluster.Tables))
	above := -1 // the table right above, or -1
	table := func(i int) {
		if !shown[i] {
			shown[i], above = true, i
			y += d.table(c, c.Cluster.Tables[i], x, y, w) + gap
		}
	}
	for _, s := range c.Subnets {
		if s.Role == picture.RoleNodes {
			continue
		}
		y += d.subnet(s, x, y, w) + gap
		above = -1
		// A line leads only to a neighbor: a longer one would cross other boxes.
		if i := c.table(s); i >= 0 && !shown[i] {
			d.line(x+w/2, y-gap, x+w/2, y, "association "+s.State, associated(s))
			table(i)
		}
	}
	for i, t := range c.Cluster.Tables {
		if t.Role != picture.RoleCluster {
			table(i)
		}
	}
	for i := range c.Cluster.Tables {
		table(i)
	}
	dots := 9*len(c.Cluster.Tables) - 1
	y = d.nodes(c, most, x, y, w, dots, func(i int, state, title string, at int) {
		d.Dots = append(d.Dots, dot{x + 11 + 9*i, at, 3, "route " + state,
			c.Cluster.Tables[i].ID.Name() + ": " + title})
	}, func(s picture.Subnet, at int) {
		if above >= 0 && c.table(s) == above {
			top := at - 22
			d.association(s, x+w/2, top-gap, x+w/2, top)
		}
		above = -1
	})
	d.Height = y + 12
	d.frames(c, x, x, w, w)
	return d
}

// table returns the index of the table that a subnet should have, or else of the one it has, or -1.
func (c Cluster) table(s picture.Subnet) int {
	return c.at(cmp.Or(s.Wanted, s.Table))
}

// describe says where a route leads, and what is wrong with it.
func describe(r picture.Route) string {
	leads := "leads to " + r.NextHop
	switch r.State {
	case picture.Missing:
		return "is missing, expected next hop " + r.Wanted
	case picture.Wrong:
		return leads + ", expected next hop " + r.Wanted
	case picture.Stale:
		return leads + "; the cluster's route table has no such route"
	case picture.Unknown:
		return leads + "; not known whether it works"
	case picture.Leftover:
		return leads + "; the cluster's route table has no such route, but the policy is UpsertOnly"
	case picture.Kept:
		return leads + "; it stays, because the cluster's route table has no pod routes"
	case severed:
		return leads + ", but packets are dropped: another route hides it"
	case picture.Idle:
		return leads + ", but the table is not on its subnet"
	}
	return leads
}

func joined(what string, prefixes []netip.Prefix) string {
	for _, p := range prefixes {
		what += " " + p.String()
	}
	return what
}

// label describes the drawing for screen readers.
func label(c Cluster) string {
	parts := []string{"Network of " + c.Name + ": " + c.Sentence}
	for _, s := range c.Subnets {
		parts = append(parts, "subnet "+s.ID.Name()+" "+associated(s))
	}
	for _, t := range c.Cluster.Tables {
		parts = append(parts, fmt.Sprintf("route table %s with %s working", t.ID.Name(),
			finding.Count(t.Counts()[picture.Works], "pod route")))
	}
	return strings.Join(parts, "; ") + "."
}
