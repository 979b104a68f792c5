//! The picture of a board in pixels, for places that take no SVG.

use std::sync::{Arc, LazyLock};

use model::{Problem, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels for one unit of the drawing, so that small letters can be read.
const SCALE: f32 = 2.0;
/// The family of [`FONTS`].
const FAMILY: &str = "Ubuntu";

/// A server may have no fonts at all: the picture brings its own.
static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    Arc::new(fonts)
});

/// Draws what [`super::svg`] wrote; a PNG file.
///
/// # Errors
/// `board.undrawable`, which is a defect.
pub fn png(svg: &str) -> Result<Vec<u8>> {
    let wrong = |reason: String| Problem::internal("board.undrawable", "the board cannot be drawn").found(reason);
    let options = Options { fontdb: FONTS.clone(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| wrong(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let size = size.ok_or_else(|| wrong("it has no size".to_owned()))?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(|| wrong("it is too large".to_owned()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| wrong(error.to_string()))
}
