package storm

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// A curve is a named line.
type curve struct {
	name   string
	points plotter.XYs
}

// colours are the palette of Okabe and Ito, which most people with a colour deficiency can distinguish.
var colours = []color.RGBA{
	{0, 0, 0, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {86, 180, 233, 255}, {204, 121, 167, 255},
	{213, 94, 0, 255}, {0, 114, 178, 255}, {240, 228, 66, 255}, {128, 128, 128, 255},
}

// draw writes a plot of curves as an SVG file.
func draw(dir, file, title, x, y string, logarithmic bool, curves ...curve) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	if logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	for i, c := range curves {
		l, err := plotter.NewLine(c.points)
		if err != nil {
			return fmt.Errorf("storm: %s: %w", c.name, err)
		}
		l.Color, l.Width = colours[i%len(colours)], vg.Points(1.5)
		p.Add(l)
		p.Legend.Add(c.name, l)
	}
	return p.Save(20*vg.Centimeter, 11*vg.Centimeter, filepath.Join(dir, file))
}
