package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/plan"
)

// Demo shows the demo while it runs: as text, or as lines of JSON.
type Demo struct {
	W      io.Writer
	Format Format
	Style  Style

	scenes, good int
}

// Stage is the setting of the demo: the address of the emulator, and the short names of what is in
// it.
type Stage struct {
	Address                     string
	Cluster, ClusterTable       string
	NodeSubnet                  string
	GatewaySubnet, GatewayTable string
	Firewalled                  string // another cluster
}

// Scene is a scene that ran.
type Scene struct {
	Name, Title string
	OK          bool
	Changes     []plan.Outcome
	Detail      string
	Elapsed     time.Duration
	ARM         Calls
}

// sceneLine and summaryLine are the demo's JSON lines (docs/json.md).
type sceneLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	ElapsedMs int64  `json:"elapsedMs"`
	ARMReads  int    `json:"armReads"`
	ARMWrites int    `json:"armWrites"`
	ARMPolls  int    `json:"armPolls"`
	Detail    string `json:"detail"`
}

type summaryLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	Scenes    int    `json:"scenes"`
	Failed    int    `json:"failed"`
	ElapsedMs int64  `json:"elapsedMs"`
}

// Started shows the stage.
func (d *Demo) Started(s Stage) error {
	if d.Format == JSON {
		return nil
	}
	rows := [][]string{
		{"  cluster", s.Cluster, "kubenet, 3 nodes, pod CIDR 10.244.0.0/16"},
		{"  its route table", s.ClusterTable, "existing; also routes 0.0.0.0/0 to a firewall"},
		{"  node subnet", s.NodeSubnet, "existing"},
		{"  gateway subnet", s.GatewaySubnet,
			"an Application Gateway, with the route table " + s.GatewayTable},
		{"  another cluster", s.Firewalled, "Azure CNI Overlay, behind a firewall"},
	}
	head := "A local Azure emulator listens on " + s.Address + ", with:"
	return d.lines(append([]string{head}, Columns(rows)...)...)
}

// Scene shows a scene.
func (d *Demo) Scene(s Scene) error {
	d.scenes++
	mark, paint := "ok  ", d.Style.Green
	if s.OK {
		d.good++
	} else {
		mark, paint = "FAIL", d.Style.Red
	}
	if d.Format == JSON {
		return WriteJSON(d.W, sceneLine{s.Name, s.OK, s.Elapsed.Milliseconds(),
			s.ARM.Reads, s.ARM.Writes, s.ARM.Polls, s.Detail})
	}
	lines := []string{"", fmt.Sprintf("%s %s  %s", paint(mark), d.Style.Bold(s.Name), s.Title)}
	for _, line := range ChangeLines(s.Changes, d.Style) {
		lines = append(lines, "       "+line)
	}
	return d.lines(append(lines,
		"     "+s.Detail,
		"     "+d.Style.Dim(Duration(s.Elapsed)+"; ARM: "+s.ARM.String()))...)
}

// Say writes a line about the demo itself.
func (d *Demo) Say(line string) error { return d.lines("", line) }

// Summary ends the demo: whether all scenes went as expected, and how long they took.
func (d *Demo) Summary(ok bool, elapsed time.Duration) error {
	if d.Format == JSON {
		return WriteJSON(d.W,
			summaryLine{"summary", ok, d.scenes, d.scenes - d.good, elapsed.Milliseconds()})
	}
	text := fmt.Sprintf("%d of %d scenes ok in %s.", d.good, d.scenes, Duration(elapsed))
	if ok {
		return d.lines("", d.Style.Green(text))
	}
	return d.lines("", d.Style.Red(text))
}

func (d *Demo) lines(lines ...string) error {
	return put(d.W, strings.Join(lines, "\n")+"\n")
}
