package page

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// drawing is a cluster's network as shapes, in pixels at full size.
type drawing struct {
	Left, Width, Height int
	Label               string // for screen readers
	Boxes               []box
	Lines               []line
	Words               []words
	Dots                []dot
}

// box is a rectangle with round corners. Class says what the box is, and its state.
type box struct {
	X, Y, W, H int
	Class      string
	Title      string
}

// line is a curve from one point to another.
type line struct {
	Path, Class, Title string
}

// words is a line of text, cut if it is too long. Title is the whole text if it was cut.
type words struct {
	X, Y               int
	Text, Class, Title string
}

type dot struct {
	X, Y, R      int
	Class, Title string
}

func (d *drawing) line(x1, y1, x2, y2 int, class, title string) {
	bend := (x2 - x1) / 2
	d.Lines = append(d.Lines,
		line{fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2),
			class, title})
}

// cross marks where an association is broken.
func (d *drawing) cross(x, y int) {
	d.Lines = append(d.Lines, line{fmt.Sprintf("M%d %dl10 10m0 -10l-10 10", x-5, y-5), "cross", ""})
}

func (d *drawing) text(x, y, w int, text, class string) {
	fits, title := cut(text, int(float64(w)/letterWidth(class)))
	d.Words = append(d.Words, words{x, y, fits, class, title})
}

// width returns the width of a text in the font of a class, rounded up.
func width(text, class string) int {
	return int(math.Ceil(float64(utf8.RuneCountInString(text)) * letterWidth(class)))
}

// letterWidth returns the width of a letter in the font of a class, rounded up.
func letterWidth(class string) float64 {
	switch kind, _, _ := strings.Cut(class, " "); kind {
	case "name":
		return 8.8
	case "address", "pods":
		return 6.95 // monospaced
	case "dim", "vnet-name":
		return 6.2
	}
	return 6.8
}

// right writes text that ends at x.
func (d *drawing) right(x, y, w int, text, class string) { d.text(x, y, w, text, class+" end") }

// cut shortens text to a number of letters. all is the whole text if it was cut.
func cut(text string, most int) (fits, all string) {
	if utf8.RuneCountInString(text) <= most {
		return text, ""
	}
	return string([]rune(text)[:max(most-1, 1)]) + "…", text
}
