package report

import (
	"fmt"
	"io"
	"strconv"

	"routekeeper.dev/routekeeper/internal/capacity"
)

// Capacity is what fits into subnets, and the sizes that are needed, a line for each network
// plugin.
type Capacity struct {
	Fits  []Fit            `json:"fits,omitempty"`
	Needs []capacity.Sizes `json:"needs,omitempty"`
	// Formulas shows how each limit was computed. Note is a line below what fits.
	Formulas bool   `json:"-"`
	Note     string `json:"-"`
}

// Fit is what fits. Enough is whether that is enough; nil if no need was given.
type Fit struct {
	capacity.Fit
	Enough *bool `json:"enough,omitempty"`
}

// Write writes it in the given format.
func (c Capacity) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, c)
	}
	var tables []Table
	if len(c.Fits) > 0 {
		tables = append(tables, c.fits())
	}
	if len(c.Needs) > 0 {
		tables = append(tables, c.needs())
	}
	for i, table := range tables {
		if i > 0 && format != Short {
			fmt.Fprintln(w)
		}
		if err := table.Write(w, format, style); err != nil {
			return err
		}
	}
	return nil
}

func (c Capacity) fits() Table {
	t := Table{Header: []string{
		"plugin", "pods a node", "nodes", "for upgrades", "pods", "limited by"}}
	if c.Fits[0].Enough != nil {
		t.Header = append(t.Header, "enough")
	}
	for _, f := range c.Fits {
		row := []string{string(f.Plugin), strconv.Itoa(f.MaxPods), strconv.Itoa(f.Nodes),
			strconv.Itoa(f.Surge), strconv.Itoa(f.Pods), f.LimitedBy}
		if f.Enough != nil {
			row = append(row, yesNo(*f.Enough))
		}
		t.Rows = append(t.Rows, row)
		if c.Formulas {
			for _, l := range f.Limits {
				t.Lines = append(t.Lines, fmt.Sprintf("%s: at most %d nodes by %s: %s",
					f.Plugin, l.Nodes, l.What, l.Formula))
			}
		}
	}
	if c.Note != "" {
		t.Lines = append(t.Lines, c.Note)
	}
	return t
}

func (c Capacity) needs() Table {
	t := Table{Header: []string{"plugin", "pods a node", "nodes", "for upgrades",
		"addresses", "subnet", "pod subnet", "pod CIDR", "too much for"}}
	length := func(bits int) string {
		if bits == 0 {
			return "-"
		}
		return "/" + strconv.Itoa(bits)
	}
	for _, n := range c.Needs {
		t.Rows = append(t.Rows, []string{string(n.Plugin), strconv.Itoa(n.MaxPods),
			strconv.Itoa(n.Nodes), strconv.Itoa(n.Surge), strconv.Itoa(n.SubnetAddresses),
			length(n.Subnet), length(n.PodSubnet), length(n.PodCIDR), n.TooMuch})
	}
	return t
}

// Growth is how far the pools of a cluster can grow. Unseen says what could not be counted, one
// line each.
type Growth struct {
	Pools  []capacity.Growth `json:"pools"`
	Unseen []string          `json:"-"`
}

// Write writes it in the given format.
func (g Growth) Write(w io.Writer, format Format, style Style) error {
	t := Table{Header: []string{
		"pool", "nodes", "at most", "for upgrades", "limited by", "autoscaler", "enough",
	}, Lines: g.Unseen, Value: g}
	for _, p := range g.Pools {
		row := []string{p.Pool, strconv.Itoa(p.Nodes), strconv.Itoa(p.Most), strconv.Itoa(p.Surge),
			p.LimitedBy, "-", "-"}
		if p.Enough != nil {
			row[5], row[6] = strconv.Itoa(p.Autoscaler), yesNo(*p.Enough)
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(w, format, style)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
