package report

import (
	"fmt"
	"io"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Packets has the results of the calls between pods while the node subnet had no route table. It
// contains no names of the user's, because it is also the line in the file that can be sent to the
// maintainers.
type Packets struct {
	Plugin   string `json:"plugin"`
	Nodes    int    `json:"nodes"`
	Pods     int    `json:"pods"`
	Machines int    `json:"machines"`
	// Pairs is how many pods called how many addresses, each once a second.
	Pairs int `json:"pairs"`
	// Before counts the calls of some seconds before the strip. All of them arrived.
	Before int `json:"before"`
	Sent   int `json:"sent"`
	Lost   int `json:"lost"`
	// Unasked counts calls that could not be made. Sent and Lost do not include them.
	Unasked int `json:"unasked"`
	// The seconds count from when the write that strips the subnet was sent.
	FirstLost  float64 `json:"firstLostSeconds"`
	LastLost   float64 `json:"lastLostSeconds"`
	RepairedIn float64 `json:"repairedSeconds"`
	// RepairedBy is "keeper", or "prove" if no keeper did it in time.
	RepairedBy string `json:"repairedBy"`
	// Emulator is set if this is not Azure.
	Emulator bool `json:"emulator"`
}

// Write writes it in the given format. cluster and file name the cluster and the file with the
// figures.
func (p Packets) Write(w io.Writer, format Format, style Style, cluster, file string) error {
	if format == JSON {
		return WriteJSON(w, p)
	}
	seconds := func(s float64) string {
		return Duration(time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond))
	}
	paint, lost := style.Green, "none was lost"
	if p.Lost > 0 {
		paint, lost = style.Red, fmt.Sprintf("%d were lost, from %s to %s after the strip", p.Lost,
			seconds(p.FirstLost), seconds(p.LastLost))
	}
	by := "a keeper put the table back"
	if p.RepairedBy != "keeper" {
		by = "no keeper did it in time, so prove put the table back"
	}
	where := ""
	if p.Emulator {
		where = " The emulator answered, and not Azure."
	}
	if p.Unasked > 0 {
		where += fmt.Sprintf(" %s could not be made, because the API server did not reach the "+
			"pod.", finding.Count(p.Unasked, "call"))
	}
	_, err := fmt.Fprintf(w, "%s\n  %s\n  %s %s after the strip.%s\n%s\n",
		style.Bold(fmt.Sprintf("%s on %s, each once a second: %s", finding.Count(p.Pairs, "call"),
			plain(cluster), finding.Count(p.Nodes, "node"))),
		paint(fmt.Sprintf("Of %s, %s.", finding.Count(p.Sent, "call"), lost)), by,
		seconds(p.RepairedIn), where,
		style.Dim(plain(file)+" has the figures, without a name of yours; please send it "+
			"to the maintainers"))
	return err
}
