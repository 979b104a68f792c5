//! `conclusion.csv`: what the detector said of each endpoint, in the public form.

use model::{ErrorKind, Problem, Result};
use rca::detector::{EndpointRow, Figures};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The columns, in order.
pub const COLUMNS: [&str; 12] = EndpointRow::COLUMNS;

/// One endpoint in both windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConclusionRow {
    pub span_name: String,
    /// Empty when there is no issue.
    pub issues: Map<String, Value>,
    pub abnormal: EndpointFigures,
    pub normal: EndpointFigures,
}

/// Durations in seconds. A figure that was not measured is absent and leaves its cell empty.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EndpointFigures {
    pub avg: Option<f64>,
    /// Share of requests that succeeded, 0 to 1.
    pub success_rate: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl From<&EndpointRow> for ConclusionRow {
    fn from(row: &EndpointRow) -> Self {
        let figures = |figures: &Figures| {
            figures.measured().map_or_else(EndpointFigures::default, |figures| EndpointFigures {
                avg: Some(figures.avg),
                success_rate: figures.succ_rate,
                p90: Some(figures.p90),
                p95: Some(figures.p95),
                p99: Some(figures.p99),
            })
        };
        Self {
            span_name: row.span_name.clone(),
            issues: row.issues.clone(),
            abnormal: figures(&row.abnormal),
            normal: figures(&row.normal),
        }
    }
}

impl ConclusionRow {
    pub(crate) fn figures(&self) -> [Option<f64>; 10] {
        let (a, n) = (&self.abnormal, &self.normal);
        [a.avg, n.avg, a.success_rate, n.success_rate, a.p90, n.p90, a.p95, n.p95, a.p99, n.p99]
    }
}

pub(crate) fn write(rows: &[ConclusionRow]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer.write_record(COLUMNS).map_err(internal)?;
    for row in rows {
        if row.span_name.is_empty() {
            return Err(malformed("a row names no endpoint").place("SpanName").expected("a span name"));
        }
        let mut record = vec![row.span_name.clone(), Value::Object(row.issues.clone()).to_string()];
        for (column, figure) in COLUMNS[2..].iter().zip(row.figures()) {
            if let Some(number) = figure.filter(|number| !number.is_finite()) {
                return Err(malformed("a number is not finite")
                    .place(format!("{}: {column}", row.span_name))
                    .found(number.to_string())
                    .expected("a finite number, or none"));
            }
            record.push(figure.map(|number| format!("{number:?}")).unwrap_or_default());
        }
        writer.write_record(record).map_err(internal)?;
    }
    writer.into_inner().map_err(|error| internal(csv::Error::from(error.into_error())))
}

pub(crate) fn read(text: &[u8]) -> Result<Vec<ConclusionRow>, Box<dyn std::error::Error + Send + Sync>> {
    let mut reader = csv::Reader::from_reader(text);
    if reader.headers()?.iter().ne(COLUMNS) {
        return Err(format!("other columns than {}", COLUMNS.join(", ")).into());
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let mut figures = [None; 10];
        for (figure, cell) in figures.iter_mut().zip(record.iter().skip(2)) {
            *figure = if cell.is_empty() { None } else { Some(cell.parse::<f64>()?) };
        }
        let [aa, na, asr, nsr, a90, n90, a95, n95, a99, n99] = figures;
        rows.push(ConclusionRow {
            span_name: record[0].to_owned(),
            issues: serde_json::from_str(&record[1])?,
            abnormal: EndpointFigures { avg: aa, success_rate: asr, p90: a90, p95: a95, p99: a99 },
            normal: EndpointFigures { avg: na, success_rate: nsr, p90: n90, p95: n95, p99: n99 },
        });
    }
    Ok(rows)
}

fn malformed(message: &str) -> Problem {
    Problem::new(ErrorKind::Failed, "datapack.conclusion_malformed", message)
}

fn internal(error: csv::Error) -> Problem {
    Problem::internal("datapack.conclusion_malformed", "the conclusion cannot be written").cause(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(span_name: &str, issues: Value, avg: f64) -> ConclusionRow {
        let figures = EndpointFigures { avg: Some(avg), p99: Some(1e-9), ..EndpointFigures::default() };
        let issues = issues.as_object().unwrap().clone();
        ConclusionRow { span_name: span_name.into(), issues, abnormal: figures, normal: EndpointFigures::default() }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows = vec![
            row("GET /a,\"b\"\nc", json!({"avg_duration": {"normal": 0.1, "why": "x, \"y\""}}), 1.0),
            row("HTTP ü", json!({}), 1e22),
        ];
        let text = write(&rows).unwrap();
        assert!(text.starts_with(b"SpanName,Issues,AbnormalAvgDuration,NormalAvgDuration,AbnormalSuccRate,"));
        assert_eq!(read(&text).unwrap(), rows);
    }

    #[test]
    fn a_window_without_requests_leaves_its_cells_empty() {
        use rca::detector::Category;
        let figures = Figures { count: 4, avg: 0.5, p90: 0.6, p95: 0.7, p99: 0.8, succ_rate: Some(1.0) };
        let gone = EndpointRow {
            span_name: "GET /gone".into(),
            issues: Map::new(),
            category: Category::Unreachable,
            judged: true,
            normal: figures,
            abnormal: Figures::default(),
        };
        let text = String::from_utf8(write(&[ConclusionRow::from(&gone)]).unwrap()).unwrap();
        assert_eq!(text.lines().nth(1).unwrap(), "GET /gone,{},,0.5,,1.0,,0.6,,0.7,,0.8");
    }

    #[test]
    fn what_is_no_json_number_is_refused() {
        for number in [f64::NAN, f64::INFINITY] {
            let problem = write(&[row("a", json!({}), number)]).unwrap_err();
            assert_eq!(problem.code, "datapack.conclusion_malformed");
            assert_eq!(problem.place.unwrap(), "a: AbnormalAvgDuration");
        }
        assert_eq!(write(&[row("", json!({}), 0.0)]).unwrap_err().code, "datapack.conclusion_malformed");
    }
}
