//! Pictures of what a test saw, committed beside the text that refers to them; a stale one fails its test.

use std::path::PathBuf;

use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 300);
/// Set to anything to write the pictures instead of comparing them.
const UPDATE: &str = "UPDATE_PICTURES";

/// One chart: lines over a common axis, with the time of the fault shaded.
pub struct Picture<'a> {
    /// File name in `docs/pictures` without its ending.
    pub name: &'a str,
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub series: Vec<(&'a str, Vec<(f64, f64)>)>,
    /// Where on the x axis the fault was on.
    pub fault: Option<(f64, f64)>,
}

impl Picture<'_> {
    /// # Panics
    /// When the committed picture differs from this one.
    pub fn check(&self) {
        let drawn = self.draw().expect("drawing into a text cannot fail");
        let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "pictures"].iter().collect();
        let file = folder.join(format!("{}.svg", self.name));
        if std::env::var_os(UPDATE).is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, drawn).unwrap();
            return;
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == drawn, "{} is stale: run `cargo xtask codegen`", file.display());
    }

    fn draw(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let (x, y) = (self.range(|point| point.0, 0.0), self.range(|point| point.1, 0.08));
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 16))
                .margin(10)
                .x_label_area_size(36)
                .y_label_area_size(60)
                .build_cartesian_2d(x.0..x.1, 0.0..y.1)?;
            if let Some((from, to)) = self.fault {
                let shade = RGBColor(190, 60, 40).mix(0.10);
                chart.draw_series([Rectangle::new([(from, 0.0), (to, y.1)], shade.filled())])?;
            }
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_desc(self.x)
                .y_desc(self.y)
                .x_label_formatter(&|value| format!("{value:.0}"))
                .y_label_formatter(&|value| format!("{value:.0}"))
                .draw()?;
            for (at, (label, points)) in self.series.iter().enumerate() {
                let colour = COLOURS[at % COLOURS.len()];
                chart
                    .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                    .label(*label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
            }
            if self.series.len() > 1 {
                chart.configure_series_labels().position(self.legend()).background_style(WHITE.mix(0.8)).draw()?;
            }
            area.present()?;
        }
        Ok(text)
    }

    /// Before a fault there is room on the left; tails leave it on the right.
    const fn legend(&self) -> SeriesLabelPosition {
        if self.fault.is_some() { SeriesLabelPosition::UpperLeft } else { SeriesLabelPosition::UpperRight }
    }

    fn range(&self, of: impl Fn(&(f64, f64)) -> f64, margin: f64) -> (f64, f64) {
        let values = self.series.iter().flat_map(|(_, points)| points).map(of);
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        assert!(low < high, "{}: nothing to draw", self.name);
        (low, high + margin * (high - low))
    }
}

/// Colours that stay apart for readers with colour-vision deficiency (Okabe and Ito).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

/// Mean of `value` over the items whose time falls into each second of `[from, to)`; seconds without items are left out.
pub fn by_second<T>(
    items: impl IntoIterator<Item = T>,
    (from, to): (i64, i64),
    at: impl Fn(&T) -> i64,
    value: impl Fn(&T) -> f64,
) -> Vec<(f64, f64)> {
    let mut sums = vec![(0.0, 0_u32); (to - from) as usize];
    for item in items {
        let second = at(&item).div_euclid(1_000_000_000) - from;
        if let Some(place) = usize::try_from(second).ok().and_then(|second| sums.get_mut(second)) {
            *place = (place.0 + value(&item), place.1 + 1);
        }
    }
    let means = sums.into_iter().enumerate().filter(|(_, (_, count))| *count > 0);
    means.map(|(second, (sum, count))| ((from + second as i64) as f64, sum / f64::from(count))).collect()
}

/// How many items fall into each second of `[from, to)`.
pub fn count_by_second<T>(
    items: impl IntoIterator<Item = T>,
    (from, to): (i64, i64),
    at: impl Fn(&T) -> i64,
) -> Vec<(f64, f64)> {
    let mut counts = vec![0_u32; (to - from) as usize];
    for item in items {
        let second = at(&item).div_euclid(1_000_000_000) - from;
        if let Some(place) = usize::try_from(second).ok().and_then(|second| counts.get_mut(second)) {
            *place += 1;
        }
    }
    counts.into_iter().enumerate().map(|(second, count)| ((from + second as i64) as f64, f64::from(count))).collect()
}
