// What is wrong with the boxes of a page as it is laid out: texts that lie on each other, texts that are cut.
() => {
  const SLACK = 2.5;  // pixels: the boxes of lines are a little taller than their letters
  const HIDES = ['hidden', 'clip'];
  const found = [];
  const shown = text => text.replace(/\s+/g, ' ').trim().slice(0, 40);
  const name = element => element.tagName.toLowerCase() + '.' + (element.getAttribute('class') || '');
  const visible = element => element.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const isInline = element => element.closest('math') || getComputedStyle(element).display.startsWith('inline');
  const kept = of => { const known = new Map(); return key => known.has(key) ? known.get(key) : (known.set(key, of(key)), known.get(key)); };

  // Whose text it is: of a drawing each label, of a formula the block around it, else the nearest block.
  const owner = kept(element => {
    const label = element.closest('svg g[id^="text_"]') || element.closest('svg text');
    if (label) return label;
    while (element.parentElement && isInline(element)) element = element.parentElement;
    return element;
  });

  // All around an element that scrolls or hides what does not fit.
  const frames = kept(element => {
    if (!element || element === document.body) return [];
    const style = getComputedStyle(element), [x, y] = [style.overflowX, style.overflowY];
    const further = style.position === 'fixed' ? [] : frames(element.parentElement);
    return x === 'visible' && y === 'visible' ? further : [{element, x, y, box: element.getBoundingClientRect()}, ...further];
  });

  // The part of a box that is seen; what is hidden and cannot be scrolled to is reported.
  const seen = (box, element, text) => {
    let {left, top, right, bottom} = box;
    for (const frame of frames(element)) {
      const {box: bounds, x, y} = frame;
      const cutAside = HIDES.includes(x) && (right > bounds.right + SLACK || left < bounds.left - SLACK);
      const cutBelow = HIDES.includes(y) && (bottom > bounds.bottom + SLACK || top < bounds.top - SLACK);
      if (cutAside || cutBelow) found.push(`cut by ${name(frame.element)}: ${text}`);
      if (x !== 'visible') [left, right] = [Math.max(left, bounds.left), Math.min(right, bounds.right)];
      if (y !== 'visible') [top, bottom] = [Math.max(top, bounds.top), Math.min(bottom, bounds.bottom)];
    }
    return {left, top, right, bottom};
  };

  const boxes = [];
  const add = (box, element, text) => {
    const part = seen(box, element, text);
    if (part.right - part.left > 1 && part.bottom - part.top > 1) boxes.push({...part, owner: owner(element), text});
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const text = shown(walker.currentNode.data), element = walker.currentNode.parentElement;
    if (!text || element.closest('script, style, annotation, .visually-hidden, .sr-only') || !visible(element)) continue;
    range.selectNodeContents(walker.currentNode);
    // Fonts of formulas have lines that are far taller than what they draw: there the elements' own boxes.
    const lines = element.closest('math') ? [element.getBoundingClientRect()] : range.getClientRects();
    for (const box of lines) add(box, element, text);
  }
  for (const picture of document.querySelectorAll('img, svg g[id^="text_"]:not(:has(text))')) {
    if (visible(picture)) add(picture.getBoundingClientRect(), picture, shown(picture.alt || picture.id));
  }

  boxes.sort((one, other) => one.top - other.top);
  boxes.forEach((one, i) => {
    for (let j = i + 1; j < boxes.length && boxes[j].top < one.bottom - SLACK; j++) {
      const other = boxes[j];
      if (one.owner.contains(other.owner) || other.owner.contains(one.owner)) continue;
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > SLACK && high > SLACK) found.push(`overlap: ${one.text} | ${other.text}`);
    }
  });

  // Blocks whose contents are wider than they are, without a scroll bar.
  for (const block of document.querySelectorAll('p, li, td, th, pre, h1, h2, h3, h4, dt, dd, figure, figcaption')) {
    const style = getComputedStyle(block);
    if (isInline(block) || ['auto', 'scroll'].includes(style.overflowX) || !visible(block)) continue;
    if (block.scrollWidth > block.clientWidth + SLACK) found.push(`spills from ${name(block)}: ${shown(block.textContent)}`);
  }
  return [...new Set(found)].slice(0, 5);
}
