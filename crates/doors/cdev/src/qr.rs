//! QR codes as pictures: PNG for who asks for one, SVG for the page.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use qrcode::{Color, EcLevel, QrCode};

/// Light around a code, so that a camera finds its edge.
const QUIET: usize = 4;
const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

struct Square {
    side: usize,
    colors: Vec<Color>,
}

impl Square {
    fn of(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
        Some(Self { side: code.width() + 2 * QUIET, colors: code.to_colors() })
    }

    fn is_dark(&self, x: usize, y: usize) -> bool {
        let width = self.side - 2 * QUIET;
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < width);
        let at = inside(x).zip(inside(y)).map(|(x, y)| y * width + x);
        at.and_then(|at| self.colors.get(at)) == Some(&Color::Dark)
    }
}

/// A picture of at least one pixel for each module, else of `side` pixels as nearly as whole modules allow.
pub(crate) fn png(text: &str, side: u32) -> Option<Vec<u8>> {
    let square = Square::of(text)?;
    let scale = (side as usize / square.side).max(1);
    let pixels = square.side * scale;
    // One bit for each, eight in a byte, a filter byte before every row.
    let mut rows = Vec::with_capacity(pixels * (pixels / 8 + 2));
    for y in 0..pixels {
        rows.push(0);
        for first in (0..pixels).step_by(8) {
            let bits = (first..first + 8).map(|x| x < pixels && !square.is_dark(x / scale, y / scale));
            rows.push(bits.fold(0u8, |byte, light| byte << 1 | u8::from(light)));
        }
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&rows).ok()?;
    let wide = u32::try_from(pixels).ok()?.to_be_bytes();
    // One bit of grey, nothing interlaced.
    let header = [wide.as_slice(), wide.as_slice(), &[1, 0, 0, 0, 0]].concat();
    let mut out = SIGNATURE.to_vec();
    for (kind, data) in [(b"IHDR", header), (b"IDAT", packed.finish().ok()?), (b"IEND", Vec::new())] {
        out.extend(u32::try_from(data.len()).ok()?.to_be_bytes());
        let mut sum = Crc::new();
        sum.update(kind);
        sum.update(&data);
        out.extend(kind);
        out.extend(&data);
        out.extend(sum.sum().to_be_bytes());
    }
    Some(out)
}

/// The same as lines that scale.
pub(crate) fn svg(text: &str) -> Option<String> {
    let square = Square::of(text)?;
    let side = square.side;
    let mut path = String::new();
    for y in 0..side {
        let mut x = 0;
        while x < side {
            let run = (x..side).take_while(|x| square.is_dark(*x, y)).count();
            if run > 0 {
                // Into memory: nothing can fail.
                let _ = write!(path, "M{x} {y}h{run}v1h-{run}z");
            }
            x += run.max(1);
        }
    }
    Some(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" shape-rendering="crispEdges" role="img" aria-label="QR code"><rect width="{side}" height="{side}" fill="#fff"/><path d="{path}" fill="#000"/></svg>"##
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_whole_number_of_pixels_for_each_module_and_a_light_edge() {
        let png = png("https://box.example", 256).unwrap();
        assert!(png.starts_with(&SIGNATURE) && png.ends_with(b"IEND\xae\x42\x60\x82"));
        let wide = u32::from_be_bytes(png[16..20].try_into().unwrap());
        let side = u32::try_from(Square::of("https://box.example").unwrap().side).unwrap();
        assert!(wide <= 256 && wide % side == 0, "{wide} of {side}");
        assert!(super::png("x", 1).is_some(), "however small");
    }

    #[test]
    fn the_corners_are_where_a_camera_looks_for_them() {
        let square = Square::of("x").unwrap();
        assert!(!square.is_dark(0, 0) && square.is_dark(QUIET, QUIET));
        let svg = svg("x").unwrap();
        assert!(svg.contains(&format!("M{QUIET} {QUIET}h7v1h-7z")), "{svg}");
    }
}
